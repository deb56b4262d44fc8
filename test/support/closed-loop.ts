import { connect, type Socket } from 'node:net'
import { get } from './raw-client.ts'

export interface Caller {
  readonly target: string
  readonly secret: string
}

export interface LoadFigures {
  readonly answers: number
  readonly seconds: number
  /** Number of responses by status. */
  readonly statuses: ReadonlyMap<number, number>
  /** 99th percentile of the latency of accepted requests (200), in milliseconds. */
  readonly p99Ms: number
  /** The longest of them, warm-up included. */
  readonly longestMs: number
}

/**
 * Clients that send the next request as soon as they have a response, without any pause or back-off. Responses are
 * recognised by their first bytes, so that the load costs less than the server under test.
 * @param options.callers one for each connection, in turn
 * @param options.accepted stops after so many 200 responses; the first fifth is warm-up and not measured, because all
 * connections start at the same moment
 * @param options.onConnected called when each connection has had a response: a server that is late closes new connections
 * whose first request it has not read in time
 */
export async function loadClosed(
  url: string,
  options: (Caller | { readonly callers: readonly Caller[] }) & {
    readonly connections: number
    readonly accepted: number
    readonly onConnected?: () => void
  },
): Promise<LoadFigures> {
  const { hostname, port } = new URL(url)
  const callers = 'callers' in options ? options.callers : [options]
  const requests = callers.map(({ target, secret }) => get(target, secret))
  const statuses = new Map<number, number>()
  const tookMs: number[] = []
  const startedAtMs = performance.now()
  const done = Promise.withResolvers<void>()
  let unanswered = options.connections
  const sockets = Array.from({ length: options.connections }, (_, number) => {
    const request = requests[number % requests.length] ?? ''
    const socket = connect(Number(port), hostname).setNoDelay(true)
    let askedAtMs = performance.now()
    let received = ''
    let isFirst = true
    const send = () => {
      received = ''
      askedAtMs = performance.now()
      socket.write(request)
    }
    socket.on('connect', send).on('error', done.reject)
    socket.on('data', chunk => {
      received += chunk.toString('latin1')
      if (!isWhole(received)) return
      const status = Number(received.slice(9, 12))
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      if (isFirst && --unanswered === 0) options.onConnected?.()
      isFirst = false
      if (status === 200) tookMs.push(performance.now() - askedAtMs)
      if (tookMs.length >= options.accepted) done.resolve()
      else send()
    })
    return socket
  })
  await done.promise.finally(() => sockets.forEach(end))
  const answers = [...statuses.values()].reduce((sum, count) => sum + count, 0)
  const seconds = (performance.now() - startedAtMs) / 1000
  const p99Ms = percentile(tookMs.slice(options.accepted / 5), 0.99)
  return { answers, seconds, statuses, p99Ms, longestMs: percentile(tookMs, 1) }
}

export function percentile(values: readonly number[], part: number): number {
  return values.toSorted((one, other) => one - other)[Math.ceil(values.length * part) - 1] ?? 0
}

function end(socket: Socket): void {
  socket.removeAllListeners().on('error', () => {})
  socket.destroy()
}

function isWhole(answer: string): boolean {
  const head = answer.indexOf('\r\n\r\n')
  if (head < 0) return false
  const length = /\r\ncontent-length: (\d+)/i.exec(answer)
  return answer.length >= head + 4 + Number(length?.[1] ?? 0)
}
