import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { makeCertificates } from '../support/certificates.ts'
import { type Listening, startPostern } from '../support/postern-process.ts'
import { scrape, scrapeOne } from '../support/scrape.ts'
import { SecretMount } from '../support/secret-mount.ts'
import { until } from '../support/until.ts'
import { startWorld, type World } from '../support/world.ts'

/** The gateway presents a client certificate to the upstream; the certificate and the authorities change under load. */
const [old, young] = [await makeCertificates(2), await makeCertificates(30)]
const text = (file: string) => readFileSync(file, 'utf8')
const SUCCESS = 'postern_config_last_reload_success'
const EXPIRY = 'postern_tls_cert_not_after_seconds{purpose="upstream_client"}'

let world: World
let upstream: Server
let secrets: SecretMount
let gateway: Listening
/** Fingerprints of the certificates presented, in order. */
const shown: string[] = []

beforeAll(async () => {
  world = await startWorld()
  const ca = [text(old.caFile), text(young.caFile)]
  upstream = createServer({ ...old.server, ca, requestCert: true, rejectUnauthorized: true }, (_, response) =>
    response.setHeader('content-type', 'application/json').end('{}'),
  )
  // Connections close after a few responses, so that new ones are opened all the time.
  upstream.maxRequestsPerSocket = 3
  upstream.on('secureConnection', (socket: TLSSocket) =>
    shown.push(socket.getPeerX509Certificate()?.fingerprint256 ?? ''),
  )
  await once(upstream.listen(0, '127.0.0.1'), 'listening')
  secrets = new SecretMount({
    ca: text(old.caFile),
    cert: text(old.clientCertFile),
    key: text(old.clientKeyFile),
    service: 'one',
  })
  const { port } = upstream.address() as AddressInfo
  gateway = await startPostern('gateway', {
    ...world.env,
    POSTERN_UPSTREAM_URL: `https://127.0.0.1:${port}`,
    POSTERN_UPSTREAM_TLS_CA_FILE: secrets.file('ca'),
    POSTERN_UPSTREAM_TLS_CERT_FILE: secrets.file('cert'),
    POSTERN_UPSTREAM_TLS_KEY_FILE: secrets.file('key'),
    POSTERN_RELOAD_EVERY_SECONDS: '0.05',
  })
})
afterAll(async () => {
  await gateway.process.stop()
  upstream.closeAllConnections()
  upstream.close()
  await world.stop()
  secrets.remove()
  for (const certificates of [old, young]) certificates.remove()
})

test('a client certificate and the authorities are replaced under load without a failed request', async () => {
  const { secret } = await world.issue()
  const statuses = new Map<number, number>()
  let going = true
  const client = async () => {
    while (going) {
      const response = await fetch(`${gateway.urls.gateway}/api/v1/workspaces/ws_1`, {
        headers: { authorization: `Bearer ${secret}` },
      })
      await response.arrayBuffer()
      statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1)
    }
  }
  const clients = [client(), client(), client()]
  const someMore = async () => {
    const seen = shown.length
    await until('further connections have been opened', () => shown.length > seen + 20)
  }
  const reads = (value: number) =>
    until('the files are reloaded', async () => (await scrapeOne(gateway.urls.ops, SUCCESS)) === value)
  await someMore()
  const [before] = shown
  const expiry = (await scrape(gateway.urls.ops)).get(EXPIRY) ?? 0

  // Files replaced one by one: in between, certificate and key do not match.
  const bundle = `${text(old.caFile)}${text(young.caFile)}`
  secrets.swap({ ca: bundle, cert: text(young.clientCertFile) })
  await reads(0)
  await someMore()
  expect(new Set(shown)).toEqual(new Set([before]))
  expect(gateway.process.log.findLast(({ level }) => level === 50)?.['problem']).toBe(
    'upstream.tls.certFile: the private key does not match the certificate',
  )
  expect((await scrape(gateway.urls.ops)).get(EXPIRY)).toBe(expiry)

  secrets.swap({ key: text(young.clientKeyFile) })
  await reads(1)
  await until('the new certificate is presented', () => shown.at(-1) !== before)
  await someMore()
  expect(shown.slice(-10)).toEqual(shown.slice(-10).map(() => shown.at(-1)))
  expect((await scrape(gateway.urls.ops)).get(EXPIRY)).toBeGreaterThan(expiry)

  // The upstream's own certificate is now issued by the other authority.
  upstream.setSecureContext({ ...young.server, ca: [text(young.caFile)] })
  await someMore()
  secrets.swap({ ca: 'no certificate at all' })
  await reads(0)
  await someMore()
  going = false
  await Promise.all(clients)
  expect([...statuses.keys()]).toEqual([200])
  process.stdout.write(
    `Certificates replaced under load: ${statuses.get(200)} responses, none of them failed\n`,
  )
})

test('without a terminal, SIGHUP reloads everything and names the settings that need a restart', async () => {
  const file = new SecretMount({ 'postern.yaml': 'log: { level: info }\ngateway: { maxInFlight: 7 }\n' })
  const started = await startPostern('gateway', { ...world.env, POSTERN_RELOAD_EVERY_SECONDS: '0' }, [
    '--config',
    file.file('postern.yaml'),
  ])
  file.swap({ 'postern.yaml': 'log: { level: warn }\ngateway: { maxInFlight: 8 }\n' })
  const hash = async () =>
    [...(await scrape(started.urls.ops)).keys()].find(name => name.startsWith('postern_config_info'))
  const before = await hash()
  started.process.child.kill('SIGHUP')
  const warning = await started.process.logged(({ settings }) => settings !== undefined)
  expect(warning).toMatchObject({ level: 40, settings: ['gateway.maxInFlight'] })
  expect(await scrapeOne(started.urls.ops, SUCCESS)).toBe(1)
  expect(await hash()).not.toBe(before)

  // At `warn`, requests are not logged.
  const lines = started.process.lines.length
  expect((await fetch(`${started.urls.gateway}/`)).status).toBe(404)
  expect((await started.process.stop('SIGTERM')).code).toBe(0)
  expect(started.process.lines.slice(lines).filter(line => line.includes('"level":30'))).toEqual([])
  file.remove()
})

test('a changed Redis address is rejected at reload: only user and password may change', async () => {
  const elsewhere = `redis://user:${randomBytes(8).toString('hex')}@127.0.0.1:1`
  const file = new SecretMount({ redis: world.redis.url })
  const { POSTERN_REDIS_URL: _, ...env } = world.env
  const started = await startPostern('gateway', {
    ...env,
    POSTERN_REDIS_URL_FILE: file.file('redis'),
    POSTERN_RELOAD_EVERY_SECONDS: '0.05',
  })
  file.swap({ redis: elsewhere })
  const refused = await started.process.logged(({ level }) => level === 50)
  expect(refused['problem']).toContain('redis.url: only user and password can change')
  expect(await scrapeOne(started.urls.ops, SUCCESS)).toBe(0)
  expect((await started.process.stop()).stdout).not.toContain(elsewhere)
  file.remove()
})
