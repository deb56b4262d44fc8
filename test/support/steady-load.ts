import { until } from './until.ts'

export interface Replica {
  readonly url: string
  inFlight: number
}

/** What a client holds, and what it must be told by whichever replica it asks. */
export interface Holder {
  readonly name: string
  readonly secret: string
  readonly expected: string
}

/** Clients that ask without end, each time of any replica, and write down every answer that is not the right one. */
export class SteadyLoad {
  readonly replicas: Replica[] = []
  readonly holders: Holder[] = []
  readonly wrong: string[] = []
  answered = 0
  #running = true
  readonly #clients: Promise<void>[]

  constructor(clients: number) {
    this.#clients = Array.from({ length: clients }, () => this.#ask())
  }

  join(url: string): Replica {
    const replica = { url, inFlight: 0 }
    this.replicas.push(replica)
    return replica
  }

  /** Sends it nothing more, and waits for what it was sent, as whoever balances load does before a replica is stopped. */
  async leave(replica: Replica): Promise<void> {
    this.replicas.splice(this.replicas.indexOf(replica), 1)
    await until('the replica has answered what it was asked', () => replica.inFlight === 0)
  }

  /** A while of load in which nothing else happens. */
  async goOn(requests = 300): Promise<void> {
    const target = this.answered + requests
    await until(`${requests} requests are answered`, () => this.answered >= target, 30_000)
  }

  async stop(): Promise<void> {
    this.#running = false
    await Promise.all(this.#clients)
  }

  async #ask(): Promise<void> {
    while (this.#running) {
      const replica = anyOf(this.replicas)
      const holder = anyOf(this.holders)
      if (replica === undefined || holder === undefined) await new Promise(resolve => setTimeout(resolve, 5))
      else await this.#askOnce(replica, holder)
    }
  }

  async #askOnce(replica: Replica, holder: Holder): Promise<void> {
    replica.inFlight++
    const answer = await ask(replica.url, holder.secret)
    replica.inFlight--
    // Who left meanwhile has nothing to expect any more.
    if (this.holders.includes(holder) && answer !== holder.expected) {
      this.wrong.push(`${holder.name}: ${answer} instead of ${holder.expected}`)
    }
    this.answered++
  }
}

/** @returns `200`, or the code of the refusal */
export async function ask(url: string, secret: string): Promise<string> {
  try {
    const headers = { authorization: `Bearer ${secret}` }
    const response = await fetch(`${url}/api/v1/auth`, { headers })
    const json = (await response.json()) as { code?: string }
    return response.status === 200 ? '200' : (json.code ?? String(response.status))
  } catch (error) {
    return String(error instanceof Error ? (error.cause ?? error) : error)
  }
}

function anyOf<Item>(items: readonly Item[]): Item | undefined {
  return items[Math.floor(Math.random() * items.length)]
}
