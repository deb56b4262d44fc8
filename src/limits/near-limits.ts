import type { KeyGrant } from '../domain/key/key-record.ts'
import type { LimitUse, PolicyCount } from '../domain/rate-limit.ts'

/** Beyond it, a window waits until others are reported: its next request notes it. */
const MAX_NOTED = 10_000

/** Whose requests a window counts, and the plan that set its limit. */
export interface LimitedKey {
  readonly grant: Pick<KeyGrant, 'workspaceId' | 'id'>
  /** Null: no plan, or an unknown one. */
  readonly plan: string | null
}

/** Windows that are nearly used up, as seen last, until the next report to the console. */
export class NearLimits {
  readonly #noted = new Map<string, LimitUse>()

  get size(): number {
    return this.#noted.size
  }

  /** @param counter its name. @param nowMs since the epoch */
  note(counter: string, count: PolicyCount, { grant, plan }: LimitedKey, nowMs: number): void {
    const { policy, remaining, resetMs } = count
    if (this.#noted.size >= MAX_NOTED && !this.#noted.has(counter)) return
    this.#noted.set(counter, {
      workspaceId: grant.workspaceId,
      keyId: policy.per === 'key' ? grant.id : null,
      plan,
      policy: policy.name,
      windowSeconds: policy.windowSeconds ?? null,
      requests: policy.requests,
      used: policy.requests - remaining,
      endsAt: Math.round(nowMs + resetMs),
    })
  }

  /** Removes those that were noted first, for a report. */
  take(number: number): LimitUse[] {
    const taken = [...this.#noted].slice(0, number)
    for (const [counter] of taken) this.#noted.delete(counter)
    return taken.map(([, use]) => use)
  }
}
