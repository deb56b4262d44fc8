import type { KeyServiceClient, KeyServiceRequest } from '../../../src/keys/tiers/key-service-client.ts'
import type { ConsoleRun } from './console-process.ts'
import type { Network } from './network.ts'
import type { Process } from './process.ts'
import type { Random } from './random.ts'
import type { Scheduler } from './scheduler.ts'

interface Parts {
  readonly scheduler: Scheduler
  readonly network: Network
  readonly random: Random
  readonly consoles: () => readonly ConsoleRun[]
  /** A request of this gateway got no response in time. */
  readonly onUnanswered: (gateway: Process) => void
  /** A response about these keys has arrived. */
  readonly onAnswered: (gateway: Process, digests: readonly string[]) => void
}

/** Calls to any console: a request or its response may be late or get lost. */
export class KeyServiceNetwork {
  readonly #parts: Parts

  constructor(parts: Parts) {
    this.#parts = parts
  }

  clientOf(gateway: Process): KeyServiceClient['request'] {
    const { scheduler, network, random, consoles, onUnanswered, onAnswered } = this.#parts
    return (request, signal) => {
      const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>()
      const giveUp = (): void => {
        onUnanswered(gateway)
        reject(signal.reason)
      }
      signal.addEventListener('abort', giveUp, { once: true })
      const alive = consoles().filter(({ isServing }) => isServing)
      if (alive.length === 0) {
        onUnanswered(gateway)
        refuse(gateway, scheduler.nowMs + 1, reject)
        return promise
      }
      const target = random.pick(alive)
      const { name } = target.process
      const way = network.way(gateway.name, name)
      const travel = (at: Process, run: () => void): void => {
        if (!way.isBlocked) at.at(scheduler.nowMs + way.delayMs(), run)
      }
      travel(target.process, () => {
        target.serve(request).then(
          response =>
            travel(gateway, () => {
              onAnswered(gateway, digestsOf(request))
              resolve(response)
            }),
          () => travel(gateway, () => resolve({ status: 503, text: '' })),
        )
      })
      return promise
    }
  }
}

function refuse(gateway: Process, atMs: number, reject: (error: Error) => void): void {
  gateway.at(atMs, () => reject(new Error('connect ECONNREFUSED')))
}

function digestsOf({ path, body }: KeyServiceRequest): readonly string[] {
  if (path.startsWith('/keys/')) return [path.slice('/keys/'.length)]
  // Made by `KeyServiceStore`.
  return path === '/lookups' ? (body as { digests: string[] }).digests : []
}
