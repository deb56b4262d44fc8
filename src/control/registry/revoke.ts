import type { KeyRecord } from '../../domain/key-record.ts'
import { planRevocation } from '../../domain/revoke-key.ts'
import type { Registry } from './registry.ts'

/** Each lost race is another change of the same key that was committed; a key has few in its life. */
const MAX_ATTEMPTS = 8

export interface Revocation {
  readonly record: KeyRecord
  /** False where the key had been revoked, or had expired, before. */
  readonly changed: boolean
  /** Whether gateways were told; if not, they will be as soon as that is possible. */
  readonly announced: boolean
}

/** Plan, save, announce; planned anew where somebody else changed the key in between. */
export async function revokeKey(registry: Registry, id: string): Promise<Revocation | null> {
  const { repository, outbox, clock } = registry
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const key = await repository.findById(id)
    if (key === null) return null
    const record = planRevocation(key.record, clock.wallMs())
    if (record === key.record) return { record, changed: false, announced: await outbox.settle(key) }
    const revoked = { record, digest: key.digest }
    const change = await repository.replace(revoked)
    if (change !== null) return { record, changed: true, announced: await outbox.announce(revoked, change) }
  }
  throw new Error(`Key ${id} was changed by others through ${MAX_ATTEMPTS} attempts to revoke it`)
}
