import { readFileSync } from 'node:fs'
import {
  createServer,
  Agent as HttpAgent,
  type IncomingMessage,
  type Server,
  ServerResponse,
} from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import type { Command } from 'commander'
import { createProxyServer, type ProxyServer } from 'http-proxy-3'
import { fileErrorText } from '../../config/setting-files.ts'
import { errorCode } from '../../domain/errors.ts'
import { plainPasted } from '../../domain/form/text.ts'
import { EXIT, type Host } from '../../run/host.ts'
import { type Cli, CliError, type Define, plainText, usageError } from '../cli.ts'
import { checkKey, checkUrl, chooseContext } from '../client/session.ts'
import { portNumber } from '../options/values.ts'
import { readSecret } from '../output/terminal.ts'

/** No other machine reaches it: each client of the proxy uses the key. */
const LOOPBACK = '127.0.0.1'
const DEFAULT_PORT = 8001
const MAX_CONNECTIONS = 256
/** Where an error has no code. */
const NO_RESPONSE = 'no response'
const RESPONSE_TIMEOUT_MS = 60_000

interface ApiOptions {
  readonly url?: string
  readonly keyFile?: string
  readonly context?: string
}
interface ProxyOptions extends ApiOptions {
  readonly port: number
}

/** `postern proxy`: the API without a key on this machine, for curl, a browser and other tools. */
export const define: Define = (command: Command, cli: Cli) => {
  command
    .option('--url <address>', 'address of the API (default: that of the context)')
    .option('--key-file <file>', 'file that contains the API key, read again for each request')
    .option('--context <name>', 'API and key of `postern context list` (default: those of the one in use)')
    .option(
      '--port <number>',
      `port of ${LOOPBACK} to listen on; 0 takes a free one`,
      portNumber,
      DEFAULT_PORT,
    )
    .addHelpText('after', '\nWith --url and without --key-file the key is read from standard input.')
    .action(async (options: ProxyOptions) =>
      serve(cli.host, await readApiAccess(options, cli.host), options.port),
    )
}

async function serve(host: Host, access: ApiAccess, port: number): Promise<void> {
  const proxy = createForwarder(access, host.environment)
  const server = createServer({ requireHostHeader: true }, (request, response) => {
    logWhenDone(host, request, response)
    const refusal = findRefusal(request)
    if (refusal !== null) return answer(response, 403, 'forbidden', refusal)
    forward(proxy, access, request, response)
  })
  server.maxConnections = MAX_CONNECTIONS
  const stop = () => {
    server.close()
    server.closeAllConnections()
    proxy.close()
    host.exit(EXIT.ok)
  }
  host.onSignal('SIGINT', stop)
  host.onSignal('SIGTERM', stop)
  const address = await listen(server, port)
  host.write(`Forwarding http://${address} to ${access.url} with the key ${access.source}\n`)
}

function createForwarder({ url }: ApiAccess, environment: NodeJS.ProcessEnv): ProxyServer {
  const options = { keepAlive: true, maxSockets: MAX_CONNECTIONS, proxyEnv: environment }
  const agent = url.startsWith('https:') ? new HttpsAgent(options) : new HttpAgent(options)
  const proxy = createProxyServer({
    target: url,
    agent,
    changeOrigin: true,
    proxyTimeout: RESPONSE_TIMEOUT_MS,
  })
  // Cookies of this host belong to other programs on this machine, and those of the API would be sent to them.
  proxy.on('proxyReq', outgoing => outgoing.removeHeader('cookie'))
  proxy.on('proxyRes', incoming => {
    delete incoming.headers['set-cookie']
  })
  proxy.on('error', (error, _, response) => {
    // Of an upgrade it would be a socket, and none is forwarded.
    if (!(response instanceof ServerResponse) || response.headersSent) return void response?.destroy()
    answer(
      response,
      502,
      'bad_gateway',
      `${url} cannot be reached (${errorCode(error) ?? NO_RESPONSE}): check --url or the context`,
    )
  })
  return proxy
}

function forward(
  proxy: ProxyServer,
  access: ApiAccess,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  let key: string
  try {
    key = access.readKey()
  } catch (error) {
    if (!(error instanceof CliError)) throw error
    answer(response, 502, 'bad_gateway', error.message)
    return
  }
  proxy.web(request, response, { headers: { authorization: `Bearer ${key}` } })
}

/**
 * A web page must not use the key: neither by a name that leads here (DNS rebinding) nor by a request from another site
 * (Fetch Metadata, W3C).
 */
function findRefusal({ headers, url = '', socket }: IncomingMessage): string | null {
  const port = socket.localPort
  const own = ['127.0.0.1', 'localhost'].map(name => `${name}:${port}`)
  if (!own.includes(headers.host ?? '')) return `The Host must be ${own.join(' or ')}`
  const site = headers['sec-fetch-site'] ?? 'none'
  const isOwnOrigin = headers.origin === undefined || own.some(name => headers.origin === `http://${name}`)
  if (!['none', 'same-origin'].includes(String(site)) || !isOwnOrigin)
    return 'Requests of web pages from elsewhere are not forwarded'
  return url.startsWith('/') ? null : 'The target must be a path'
}

/** In the form of the API's own errors. */
function answer(response: ServerResponse, status: number, code: string, error: string): void {
  response.writeHead(status, {
    'content-type': 'application/json; charset=utf-8',
    'cache-control': 'no-store',
  })
  response.end(JSON.stringify({ error, code }))
}

/** Without the query, which may hold what is not for a screen. */
function logWhenDone(host: Host, { method = '', url = '' }: IncomingMessage, response: ServerResponse): void {
  const beganMs = performance.now()
  const [path = '', query] = url.split('?', 2)
  response.on('close', () => {
    const outcome = response.writableFinished ? String(response.statusCode) : 'cut off'
    const target = plainText(path) + (query === undefined ? '' : '?…')
    host.write(`${method} ${target} ${outcome} ${Math.round(performance.now() - beganMs)} ms\n`)
  })
}

async function listen(server: Server, port: number): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  server.once('error', reject).listen(port, LOOPBACK, resolve)
  try {
    await promise
  } catch (error) {
    const message = `Port ${port} of ${LOOPBACK} cannot be used (${errorCode(error) ?? NO_RESPONSE}): choose another by --port`
    throw new CliError(message, EXIT.unavailable)
  }
  const bound = server.address()
  return `${LOOPBACK}:${typeof bound === 'object' ? bound?.port : port}`
}

const NO_URL =
  'The address of the API is missing: set --url, for example to http://127.0.0.1:8080, or add a context (`postern context add NAME --api-url …`)'

/** Where the API is, and the key for it. */
interface ApiAccess {
  /** Without a final slash. */
  readonly url: string
  /** Where the key comes from, for people. */
  readonly source: string
  /** @throws CliError if its file cannot be read, or holds no key */
  readonly readKey: () => string
}

/** The key of a context is for its own API: with `--url` it comes from a file or standard input. */
async function readApiAccess({ url, keyFile, context: name }: ApiOptions, host: Host): Promise<ApiAccess> {
  if (url !== undefined) {
    const checked = checkUrl('--url', url)
    const key = keyFile === undefined ? await givenKey(host) : fileKey(keyFile)
    return { url: checked, ...key }
  }
  const context = chooseContext(name, host.environment)
  if (context?.apiUrl === undefined) throw usageError(NO_URL)
  const place = `of the context ${context.name}`
  const file = keyFile ?? context.keyFile
  const key = file === undefined ? keptKey(place, context.key ?? '') : fileKey(file)
  return { url: checkUrl(`The address ${place}`, context.apiUrl), ...key }
}

type Key = Pick<ApiAccess, 'source' | 'readKey'>

async function givenKey({ streams }: Host): Promise<Key> {
  return keptKey('from standard input', await readSecret(streams, 'API key: '))
}

function keptKey(source: string, text: string): Key {
  const key = checkKey(source, text)
  return { source, readKey: () => key }
}

/** Read once now, so that a mistake shows at once, and again for each request: a key that was rotated is used without a restart. */
function fileKey(file: string): Key {
  const source = `in ${file}`
  const readKey = () => checkKey(source, readKeyFile(source, file))
  readKey()
  return { source, readKey }
}

function readKeyFile(source: string, file: string): string {
  try {
    return plainPasted(readFileSync(file, 'utf8').trim())
  } catch (error) {
    throw usageError(`The key ${source} cannot be read: ${fileErrorText(error)}`)
  }
}
