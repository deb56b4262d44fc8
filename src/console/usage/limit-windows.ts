import { type OnReload, reloadable } from '../../config/reloadable.ts'
import type { Config } from '../../config/schema/schema.ts'
import type { Clock } from '../../domain/clock.ts'
import type { KeyRecord } from '../../domain/key/key-record.ts'
import { counterName, currentWindow, policiesOfPlan, type RatePolicy } from '../../domain/rate-limit.ts'
import type { Announcer, CounterReadings, Regions } from '../announcing/index.ts'

/** What is left of the window of one policy. */
export interface LimitWindow {
  readonly policy: RatePolicy
  /** Requests; null: unknown. */
  readonly remaining: number | null
  /** Null if it begins with the next request, or if that is unknown. */
  readonly resetsAtMs: number | null
}

/** Each region counts by itself. */
export interface RegionWindows {
  /** Null if the settings name no regions. */
  readonly region: string | null
  readonly windows: readonly LimitWindow[]
  /** Why nothing is known of what is left; null if all of it is. */
  readonly unknown: Extract<CounterReadings, string> | null
}

export interface LimitsInUse {
  /** The plan whose policies hold; null: those of keys without a plan do. */
  readonly plan: string | null
  /** None if there is no policy. */
  readonly regions: readonly RegionWindows[]
}

/** @param counters in the order of the policies */
export function listWindows(
  policies: readonly RatePolicy[],
  counters: CounterReadings,
  nowMs: number,
): readonly LimitWindow[] {
  return policies.map((policy, index) => {
    const { leftMs } = currentWindow(policy, nowMs)
    const isKnown = typeof counters !== 'string'
    const counter = isKnown ? (counters[index] ?? null) : null
    if (counter !== null) {
      const resetsAtMs = nowMs + Math.min(counter.endsInMs, leftMs)
      return { policy, remaining: Math.max(0, policy.requests - counter.used), resetsAtMs }
    }
    const resetsAtMs = policy.window === 'month' ? nowMs + leftMs : null
    return { policy, remaining: isKnown ? policy.requests : null, resetsAtMs }
  })
}

interface LimitReaderParts {
  readonly config: Pick<Config, 'limits'>
  readonly onReload: OnReload<Pick<Config, 'limits'>>
  readonly clock: Pick<Clock, 'wallMs'>
  readonly regions: Pick<Regions, 'areNamed'> & {
    readonly list: readonly { readonly name: string; readonly announcer: Pick<Announcer, 'readCounters'> }[]
  }
}

/** Reads what is left of each window, from the counters that gateways share. Neither rejects. */
export type LimitReader = ReturnType<typeof createLimitReader>

export function createLimitReader({ config, onReload, clock, regions }: LimitReaderParts) {
  const settings = reloadable(config, onReload, ({ limits }) => limits)
  const read = async (
    policies: readonly RatePolicy[],
    { workspaceId, id }: { readonly workspaceId: string; readonly id: string },
  ): Promise<readonly RegionWindows[]> => {
    if (policies.length === 0) return []
    const nowMs = clock.wallMs()
    const names = policies.map(policy =>
      counterName(policy, currentWindow(policy, nowMs), { workspaceId, id }),
    )
    return Promise.all(
      regions.list.map(async ({ name, announcer }) => {
        const counters = await announcer.readCounters(workspaceId, names)
        return {
          region: regions.areNamed ? name : null,
          windows: listWindows(policies, counters, nowMs),
          unknown: typeof counters === 'string' ? counters : null,
        }
      }),
    )
  }
  return {
    async ofKey(key: Pick<KeyRecord, 'workspaceId' | 'id' | 'plan'>): Promise<LimitsInUse> {
      const { plan, policies } = policiesOfPlan(settings.value, key.plan)
      return { plan, regions: await read(policies, key) }
    },
    /** Of the policies that count all keys of a workspace together. */
    async ofWorkspace(workspaceId: string, ownPlan: string | null): Promise<LimitsInUse> {
      const { plan, policies } = policiesOfPlan(settings.value, ownPlan)
      const shared = policies.filter(({ per }) => per === 'workspace')
      return { plan, regions: await read(shared, { workspaceId, id: '' }) }
    },
  }
}
