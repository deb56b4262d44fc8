import type { Listening } from './postern-process.ts'
import { until } from './until.ts'

/** What `/readyz` says of a gateway's or console's parts. */
export async function readiness({ urls }: Pick<Listening, 'urls'>): Promise<Record<string, unknown>> {
  return (await (await fetch(`${urls.ops}/readyz`)).json()) as Record<string, unknown>
}

/** Until then, a gateway looks keys up at the console rather than in Redis. */
export async function untilConnected(gateway: Pick<Listening, 'urls'>, timeoutMs?: number): Promise<void> {
  const isConnected = async () => (await readiness(gateway))['changes'] === 'connected'
  await until('the gateway is connected', isConnected, timeoutMs)
}
