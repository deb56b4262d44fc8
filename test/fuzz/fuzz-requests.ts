import { RawClient } from '../support/raw-client.ts'
import type { World } from '../support/world.ts'
import { chance, mutate } from './mutate.ts'

const KNOWN = new Set([
  'host',
  'connection',
  'accept',
  'accept-encoding',
  'accept-language',
  'if-none-match',
  'if-modified-since',
  'user-agent',
  'traceparent',
  'tracestate',
  'x-postern-workspace-id',
  'x-postern-key-id',
  'x-postern-scopes',
  'x-request-id',
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
])
const LAWFUL_LINE =
  /^GET \/api\/v1\/workspaces\/ws_1(?:|\/files(?:\?limit=(?:[1-9]\d{0,2}|1000))?) HTTP\/1\.1$/

export interface FuzzReport {
  readonly sent: number
  readonly statuses: ReadonlyMap<number, number>
  readonly upstreamRequests: number
  /** Violations; the request id in each names the seed that reproduces it. */
  readonly breaches: readonly string[]
}

const AT_ONCE = 16

/**
 * Sends mutated requests, each on a new connection, and checks what the upstream received: only GET requests on the key's
 * own workspace in a form of the routes, with allowed headers and correct identity headers, and no more of them than got
 * a response.
 */
export async function fuzzRequests(
  world: World,
  secret: string,
  runs: number,
  firstSeed: number,
): Promise<FuzzReport> {
  const statuses = new Map<number, number>()
  world.upstream.reset()
  let seed = firstSeed
  const work = async () => {
    while (seed < firstSeed + runs) {
      const own = seed++
      const random = chance(own)
      const bytes = mutate(lawfulRequest(secret, own), random)
      const answers = await send(world.gateway.urls.gateway, bytes, random)
      for (const { status } of answers) statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  const seen = world.upstream.requests
  const breaches = seen.filter(request => !isLawful(request, secret)).map(request => JSON.stringify(request))
  const passed = statuses.get(200) ?? 0
  if (seen.length > passed)
    breaches.push(`${seen.length} requests reached the upstream, ${passed} were answered`)
  return { sent: runs, statuses, upstreamRequests: seen.length, breaches }
}

function lawfulRequest(secret: string, seed: number): string {
  const targets = [
    '/api/v1/auth',
    '/api/v1/workspaces/ws_1',
    '/api/v1/workspaces/ws_1/files',
    '/api/v1/workspaces/ws_1/files?limit=7',
  ]
  const lines = [
    'Host: gw',
    `Authorization: Bearer ${secret}`,
    'Accept: application/json',
    `X-Request-Id: seed-${seed}`,
    'Connection: close',
  ]
  const last = [`GET ${targets[seed % targets.length]} HTTP/1.1`, ...lines, '', ''].join('\r\n')
  // Every third request is the second of two on its connection, to detect remains of the first.
  if (seed % 3 !== 0) return last
  const first = ['GET /api/v1/workspaces/ws_1 HTTP/1.1', ...lines.slice(0, -1), '', ''].join('\r\n')
  return first + last
}

/** Sends in one piece or two. The gateway's own timeout ends incomplete requests. */
async function send(url: string, bytes: string, random: () => number) {
  const client = new RawClient(url)
  const cut = random() < 0.3 ? Math.floor(random() * bytes.length) : 0
  client.send(bytes.slice(0, cut))
  await new Promise(resolve => setImmediate(resolve))
  client.send(bytes.slice(cut))
  return client.untilClosed()
}

export function isLawful(request: string, secret: string): boolean {
  const [line = '', ...lines] = request.slice(0, -4).split('\r\n')
  const fields = lines.map(
    text => [text.slice(0, text.indexOf(':')).toLowerCase(), text.slice(text.indexOf(':') + 2)] as const,
  )
  const one = (name: string) => fields.filter(([other]) => other === name).map(([, value]) => value)
  return (
    LAWFUL_LINE.test(line) &&
    fields.every(([name]) => KNOWN.has(name)) &&
    new Set(fields.map(([name]) => name)).size === fields.length &&
    one('x-postern-workspace-id').join() === 'ws_1' &&
    one('x-forwarded-for').join() === '127.0.0.1' &&
    !request.includes(secret)
  )
}
