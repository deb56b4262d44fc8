import { TcpProxy } from '../support/tcp-proxy.ts'
import type { LateChunk, RelayAnswer, RelayCall } from './relays.ts'

/** Every so many chunks, one stalls its connection for so long. */
const STALL_EVERY = 100
const STALL_MS = 200
/** What is less late than this is no sign of a busy machine. */
const LATE_MS = 10

interface Distance {
  readonly proxy: TcpProxy
  /** One way. */
  delayMs: number
  stallEvery: number
}

const distances: Distance[] = []
let late: LateChunk[] = []

async function open(url: string, delayMs: number): Promise<Distance> {
  const proxy = await TcpProxy.start(url)
  const distance = { proxy, delayMs, stallEvery: STALL_EVERY }
  let chunks = 0
  proxy.onPiece = direction => {
    chunks++
    proxy.delayMs[direction] = distance.delayMs + (chunks % distance.stallEvery === 0 ? STALL_MS : 0)
  }
  proxy.onHandedOn = lateMs => {
    if (lateMs >= LATE_MS) late.push({ atMs: Date.now(), lateMs })
  }
  return distance
}

/** @returns the port of a new relay, or the chunks of any relay that were late since the last call */
async function answer(call: RelayCall): Promise<RelayAnswer> {
  if (call.do === 'open') {
    const distance = await open(call.url, call.delayMs)
    distances.push(distance)
    return { port: distance.proxy.port }
  }
  if (call.do === 'lateness') {
    const taken = late
    late = []
    return { late: taken }
  }
  const distance = distances.find(({ proxy }) => proxy.port === call.port)
  if (distance === undefined) throw new RangeError(`There is no relay with port ${call.port}`)
  if (call.do === 'hold') for (const direction of ['forth', 'back'] as const) distance.proxy.hold(direction)
  if (call.do === 'resume') distance.proxy.resume()
  if (call.do === 'slow') Object.assign(distance, { delayMs: call.delayMs, stallEvery: call.stallEvery })
  return {}
}

process.on('message', async ({ id, call }: { id: number; call: RelayCall }) => {
  process.send?.({ id, answer: await answer(call) })
})
process.on('disconnect', () => process.exit())
