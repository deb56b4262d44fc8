import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Agent, type AgentOptions, request } from 'node:https'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { connect as connectTls } from 'node:tls'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import type { PrepareReload } from '../../src/config/reloadable.ts'
import type { Config } from '../../src/config/schema/schema.ts'
import { createMetrics } from '../../src/observability/metrics/metrics.ts'
import { makeCertificates } from '../support/certificates.ts'
import { consoleConfig, KEY_SERVICE_TOKEN, startConsole } from '../support/console.ts'
import { metricValue } from '../support/metric-value.ts'
import { SecretMount } from '../support/secret-mount.ts'
import { until } from '../support/until.ts'

const [ours, others] = [await makeCertificates(), await makeCertificates()]
afterAll(() => {
  for (const certificates of [ours, others]) certificates.remove()
})

const read = (file: string) => readFileSync(file, 'utf8')
const ca = read(ours.caFile)
const clientOf = (certificates: typeof ours) => ({
  cert: read(certificates.clientCertFile),
  key: read(certificates.clientKeyFile),
})
const filesOf = (certificates: typeof ours) => ({
  cert: certificates.server.cert.toString(),
  key: certificates.server.key.toString(),
  ca: read(certificates.caFile),
})

/** A console whose internal listener speaks TLS out of files that a test can replace. */
async function start(options: { clientCa: boolean }) {
  const files = new SecretMount(filesOf(ours))
  onTestFinished(() => files.remove())
  const tls = { certFile: files.file('cert'), keyFile: files.file('key') }
  const internal = { tls: options.clientCa ? { ...tls, clientCaFile: files.file('ca') } : tls }
  const preparing: PrepareReload<Config>[] = []
  const metrics = createMetrics()
  const parts = { metrics, onReload: (prepare: PrepareReload<Config>) => void preparing.push(prepare) }
  const console = await startConsole({ internal, parts })
  const url = new URL(await console.internal.listen({ host: '127.0.0.1', port: 0 }))
  return {
    url,
    metrics,
    log: console.log,
    files,
    /** As the reload of a process: all prepare, then all commit. @throws what one of them cannot use */
    reload(next: Config['console']['internal']['tls'] = internal.tls) {
      const config = consoleConfig({ internal: { tls: next } })
      for (const commit of preparing.map(prepare => prepare(config))) commit()
    },
  }
}

/** Asks for a key that does not exist. @returns the status and whether the connection stays open, or the error's code */
async function send(url: URL, options: AgentOptions, agent = new Agent(options)): Promise<unknown> {
  const headers = { authorization: `Bearer ${KEY_SERVICE_TOKEN}` }
  const { promise, resolve } = Promise.withResolvers<unknown>()
  request(new URL(`/internal/v1/keys/${'0'.repeat(64)}`, url), { agent, headers }, response => {
    response.resume().on('end', () => resolve([response.statusCode, response.headers.connection]))
  })
    .on('error', (error: Error & { code?: string }) => resolve(error.code))
    .end()
  return promise.finally(() => agent.options.keepAlive || agent.destroy())
}

test('with a certificate the internal listener accepts only TLS', async () => {
  const { url } = await start({ clientCa: false })
  expect(url.protocol).toBe('https:')
  expect(await send(url, { ca })).toEqual([404, 'close'])
  const plain = connect(Number(url.port), url.hostname)
  plain.write(`GET /internal/v1/keys/${'0'.repeat(64)} HTTP/1.1\r\nHost: a\r\n\r\n`)
  expect(await text(plain).catch(() => '')).not.toContain('HTTP/1.1')
})

test('with a client CA the internal listener serves only clients with a certificate from it', async () => {
  const { url, metrics, log } = await start({ clientCa: true })
  expect(await send(url, { ca, ...clientOf(ours) })).toEqual([404, 'close'])
  const refused = [await send(url, { ca }), await send(url, { ca, ...clientOf(others) })]
  for (const outcome of refused) expect(outcome).toBeTypeOf('string')
  await until('both are counted', async () => (await metricValue(metrics.internalTlsFailures)) === 2)
  const logged = log.filter(({ msg }) => msg === 'internal TLS handshake failing')
  expect(logged).toMatchObject([{ code: expect.stringMatching(/^[A-Z_]+$/) }])
})

test('a reload applies a new certificate and client CA of the internal listener at once', async () => {
  const { url, files, reload } = await start({ clientCa: true })
  files.swap(filesOf(others))
  reload()
  expect(await send(url, { ca: read(others.caFile), ...clientOf(others) })).toEqual([404, 'close'])
  expect(await send(url, { ca, ...clientOf(others) })).toBeTypeOf('string')
  expect(await send(url, { ca: read(others.caFile), ...clientOf(ours) })).toBeTypeOf('string')
})

test('a reload of the client CA closes connections with certificates that are no longer trusted', async () => {
  const { url, files, reload } = await start({ clientCa: true })
  const agent = new Agent({ ca, ...clientOf(ours), keepAlive: true, maxSockets: 1 })
  onTestFinished(() => agent.destroy())
  expect(await send(url, {}, agent)).toEqual([404, 'keep-alive'])
  const [idle] = Object.values(agent.freeSockets).flat() as Socket[]
  if (idle === undefined) throw new Error('The connection is kept')
  const ended = once(idle, 'close')
  files.swap(filesOf(others))
  reload()
  await ended
})

test('a request in flight during a reload of certificates gets its response; then its connection closes', async () => {
  const { url, files, reload } = await start({ clientCa: true })
  const socket = connectTls({ host: url.hostname, port: Number(url.port), ca, ...clientOf(ours) })
  onTestFinished(() => void socket.destroy())
  await once(socket, 'secureConnect')
  const get = `/internal/v1/keys/${'0'.repeat(64)} HTTP/1.1\r\nHost: a\r\n`
  socket.write(`GET ${get}`)
  files.swap(filesOf(others))
  reload()
  socket.write(`Authorization: Bearer ${KEY_SERVICE_TOKEN}\r\n\r\nGET ${get}\r\n`)
  const answers = await text(socket)
  expect(answers.match(/^HTTP\/1\.1 \d+/gm)).toEqual(['HTTP/1.1 404'])
  expect(answers.toLowerCase()).toContain('connection: close')
})

test.each([
  ['a certificate of another key', { cert: others.server.cert.toString() }, /certFile: .* does not match/],
  ['an empty authority', { ca: '' }, /clientCaFile: the file contains no PEM certificate/],
])('invalid files are refused, and the previous ones stay in use: %s', async (_, files, problem) => {
  const running = await start({ clientCa: true })
  running.files.swap(files)
  expect(() => running.reload()).toThrow(problem)
  expect(await send(running.url, { ca, ...clientOf(ours) })).toEqual([404, 'close'])
})

test('a reload that would switch TLS or client certificates on or off is refused: it requires a restart', async () => {
  const strict = await start({ clientCa: true })
  const files = { certFile: strict.files.file('cert'), keyFile: strict.files.file('key') }
  expect(() => strict.reload(files)).toThrow('console.internal.tls.clientCaFile: can be set or removed')
  expect(() => strict.reload({})).toThrow('console.internal.tls.certFile: can be set or removed')
  expect(await send(strict.url, { ca })).toBeTypeOf('string')
  const lenient = await start({ clientCa: false })
  expect(() => lenient.reload({ ...files, clientCaFile: ours.caFile })).toThrow(
    'clientCaFile: can be set or removed',
  )
})
