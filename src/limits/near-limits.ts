import type { KeyGrant } from '../domain/key/key-record.ts'
import type { LimitUse, PolicyCount } from '../domain/rate-limit.ts'

/** Beyond it, a window waits until others are reported: its next request notes it. */
const MAX_NOTED = 10_000
/** So that one workspace does not keep those of others from being noted. */
const MAX_OF_WORKSPACE = 1_000

/** Whose requests a window counts, and the plan that set its limit. */
interface LimitedKey {
  readonly grant: Pick<KeyGrant, 'workspaceId' | 'id'>
  /** Null: no plan, or an unknown one. */
  readonly plan: string | null
}

/** Windows that are nearly used up, as seen last, until the next report to the console. */
export class NearLimits {
  readonly #noted = new Map<string, LimitUse>()
  readonly #ofWorkspace = new Map<string, number>()

  get size(): number {
    return this.#noted.size
  }

  /** @param counter its name. @param nowMs since the epoch */
  note(counter: string, count: PolicyCount, { grant, plan }: LimitedKey, nowMs: number): void {
    const { policy, remaining, resetMs } = count
    const { workspaceId } = grant
    if (!this.#noted.has(counter)) {
      const number = this.#ofWorkspace.get(workspaceId) ?? 0
      if (this.#noted.size >= MAX_NOTED || number >= MAX_OF_WORKSPACE) return
      this.#ofWorkspace.set(workspaceId, number + 1)
    }
    this.#noted.set(counter, {
      workspaceId,
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
    const taken: LimitUse[] = []
    for (const [counter, use] of this.#noted) {
      if (taken.length === number) break
      taken.push(use)
      this.#noted.delete(counter)
      this.#forget(use.workspaceId)
    }
    return taken
  }

  #forget(workspaceId: string): void {
    const number = (this.#ofWorkspace.get(workspaceId) ?? 0) - 1
    if (number > 0) this.#ofWorkspace.set(workspaceId, number)
    else this.#ofWorkspace.delete(workspaceId)
  }
}
