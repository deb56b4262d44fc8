import type { Listening } from './postern-process.ts'
import type { IssuedKey } from './world.ts'

/** Asks a gateway with each key once, one after the other. @returns how many it accepted */
export async function countAccepted(
  { urls }: Listening,
  keys: readonly Pick<IssuedKey, 'secret'>[],
): Promise<number> {
  let accepted = 0
  for (const { secret } of keys) {
    const headers = { authorization: `Bearer ${secret}` }
    const { status } = await fetch(`${urls.gateway}/api/v1/auth`, { headers })
    if (status === 200) accepted++
  }
  return accepted
}
