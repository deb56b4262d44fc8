import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { makeCertificates } from '../support/certificates.ts'
import { type Listening, startPostern } from '../support/postern-process.ts'
import { get, RawClient } from '../support/raw-client.ts'
import { scrapeOne } from '../support/scrape.ts'
import { SecretMount } from '../support/secret-mount.ts'
import { until } from '../support/until.ts'
import { type IssuedKey, startWorld, type World } from '../support/world.ts'

const SUCCESS = 'postern_config_last_reload_success'
const TIMESTAMP = 'postern_config_last_reload_timestamp_seconds'
const CONSOLE_EXPIRY = 'postern_tls_cert_not_after_seconds{purpose="internal_server"}'
const [old, young] = [await makeCertificates(2), await makeCertificates(30)]
const text = (file: string) => readFileSync(file, 'utf8')
const both = text(old.caFile) + text(young.caFile)

let server: SecretMount
let client: SecretMount
let world: World
let key: IssuedKey

beforeAll(async () => {
  const { cert, key: serverKey } = old.server
  server = new SecretMount({ cert: cert.toString(), key: serverKey.toString(), ca: text(old.caFile) })
  client = new SecretMount({ cert: text(old.clientCertFile), key: text(old.clientKeyFile), ca: both })
  const reload = { POSTERN_RELOAD_EVERY_SECONDS: '0.05' }
  world = await startWorld(
    { ...reload, ...clientTls() },
    {
      ...reload,
      POSTERN_CONSOLE_INTERNAL_TLS_CERT_FILE: server.file('cert'),
      POSTERN_CONSOLE_INTERNAL_TLS_KEY_FILE: server.file('key'),
      POSTERN_CONSOLE_INTERNAL_TLS_CLIENT_CA_FILE: server.file('ca'),
    },
  )
  key = await world.issue()
})
afterAll(async () => {
  await world.stop()
  for (const mount of [server, client]) mount.remove()
  for (const certificates of [old, young]) certificates.remove()
})

function clientTls(): Record<string, string> {
  return {
    POSTERN_KEY_SERVICE_TLS_CA_FILE: client.file('ca'),
    POSTERN_KEY_SERVICE_TLS_CERT_FILE: client.file('cert'),
    POSTERN_KEY_SERVICE_TLS_KEY_FILE: client.file('key'),
  }
}

/** A gateway whose only source of keys is the console, and which looks keys up there every time. */
async function startGateway(tls: Record<string, string>): Promise<Listening> {
  const { POSTERN_REDIS_URL: _, ...env } = world.env
  const gateway = await startPostern('gateway', {
    ...env,
    ...tls,
    POSTERN_KEYS_MEMORY_TTL_SECONDS: '0.05',
    POSTERN_KEYS_STALE_SECONDS: '0',
    // Each request is a lookup, which no busy machine must make fail.
    POSTERN_KEY_SERVICE_TIMEOUT_MS: '60000',
    POSTERN_RELOAD_EVERY_SECONDS: '0.05',
  })
  onTestFinished(() => void gateway.process.stop())
  return gateway
}

async function auth({ urls }: Listening): Promise<number> {
  const headers = { authorization: `Bearer ${key.secret}` }
  const response = await fetch(`${urls.gateway}/api/v1/auth`, { headers })
  await response.arrayBuffer()
  return response.status
}

test('a gateway with a client certificate is served; one without or with an untrusted certificate is rejected', async () => {
  expect(world.console.urls.internal).toMatch(/^https:/)
  expect(await auth(await startGateway(clientTls()))).toBe(200)
  const { POSTERN_KEY_SERVICE_TLS_CA_FILE: ca = '' } = clientTls()
  expect(await auth(await startGateway({ POSTERN_KEY_SERVICE_TLS_CA_FILE: ca }))).toBe(503)
  const foreign = {
    POSTERN_KEY_SERVICE_TLS_CA_FILE: ca,
    POSTERN_KEY_SERVICE_TLS_CERT_FILE: young.clientCertFile,
    POSTERN_KEY_SERVICE_TLS_KEY_FILE: young.clientKeyFile,
  }
  expect(await auth(await startGateway(foreign))).toBe(503)
  const refused = await world.console.process.logged(line => line['msg'] === 'internal TLS handshake failing')
  expect(refused).toMatchObject({ code: expect.any(String) })
})

test('certificates and authorities at both ends are replaced under load without a failed request', async () => {
  const gateway = await startGateway(clientTls())
  const statuses = new Map<number, number>()
  let going = true
  const load = async () => {
    while (going) {
      const status = await auth(gateway)
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
  }
  const clients = [load(), load()]
  const someMore = async () => {
    const seen = statuses.get(200) ?? 0
    await until('further requests have been served', () => (statuses.get(200) ?? 0) > seen + 50)
  }
  const swap = async (mount: SecretMount, reader: Listening, files: Record<string, string>) => {
    const before = await scrapeOne(reader.urls.ops, TIMESTAMP)
    mount.swap(files)
    await until('the files are reloaded', async () => (await scrapeOne(reader.urls.ops, TIMESTAMP)) > before)
    expect(await scrapeOne(reader.urls.ops, SUCCESS)).toBe(1)
    await someMore()
  }
  await someMore()
  const expiry = await scrapeOne(world.console.urls.ops, CONSOLE_EXPIRY)
  const { cert, key: serverKey } = young.server
  await swap(server, world.console, { ca: both, cert: cert.toString(), key: serverKey.toString() })
  expect(await scrapeOne(world.console.urls.ops, CONSOLE_EXPIRY)).toBeGreaterThan(expiry)
  await swap(client, gateway, {
    cert: text(young.clientCertFile),
    key: text(young.clientKeyFile),
    ca: text(young.caFile),
  })
  await swap(server, world.console, { ca: text(young.caFile) })
  going = false
  await Promise.all(clients)
  const sent = [...statuses.values()].reduce((sum, count) => sum + count, 0)
  process.stdout.write(
    `Certificates of the internal listener replaced under load: sent ${sent}, failed ${sent - (statuses.get(200) ?? 0)}\n`,
  )
  expect([...statuses.keys()]).toEqual([200])
})

test('a draining console keeps serving gateways until its public requests have finished', async () => {
  const drained = await startWorld({}, { POSTERN_DRAIN_DELAY_MS: '300' })
  onTestFinished(() => drained.stop())
  const { urls, process: running } = drained.console
  const { id } = await drained.issue()
  // A request whose body has not arrived keeps the public listener open.
  const slow = new RawClient(urls.console)
  onTestFinished(() => slow.end())
  slow.send(
    `POST /admin/v1/keys/${id}/revoke HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${drained.cliEnv['POSTERN_ADMIN_TOKEN']}\r\n` +
      'Content-Type: application/json\r\nContent-Length: 2\r\n\r\n',
  )
  const lookUp = async () => {
    const gateway = new RawClient(urls.internal)
    gateway.send(
      get(
        `/internal/v1/keys/${'0'.repeat(64)}`,
        drained.env['POSTERN_KEY_SERVICE_TOKEN'],
        'Connection: close',
      ),
    )
    return (await gateway.untilClosed())[0]?.status
  }
  running.child.kill('SIGTERM')
  await running.logged(line => line['msg'] === 'draining')
  expect(await lookUp()).toBe(404)
  await until('the public listener is closed', async () => {
    const stranger = new RawClient(urls.console)
    stranger.send('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    return (await stranger.untilClosed()).length === 0
  })
  expect(await lookUp()).toBe(404)
  slow.send('{}')
  expect((await slow.untilClosed())[0]?.status).toBe(200)
  expect((await running.exited).code).toBe(0)
})
