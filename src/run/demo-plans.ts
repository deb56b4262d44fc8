import type { Config } from '../config/schema/schema.ts'

/** The first workspace gets `team`, whose limits are out of reach of requests by hand, the second `starter`. */
export const DEMO_PLANS = {
  starter: {
    policies: [
      { name: 'day', per: 'key', requests: 500, windowSeconds: 86_400 },
      { name: 'quota', per: 'workspace', requests: 10_000, window: 'month' },
    ],
  },
  team: {
    policies: [
      { name: 'hour', per: 'key', requests: 1_000_000, windowSeconds: 3_600 },
      { name: 'quota', per: 'workspace', requests: 50_000_000, window: 'month' },
    ],
  },
} as const

export type PlanName = keyof typeof DEMO_PLANS

/** Not if a setting replaced them. */
export function hasDemoPlans({ limits }: Config): boolean {
  return Object.keys(DEMO_PLANS).every(name => name in limits.plans)
}

/** Windows of `starter` that are nearly used up, as a gateway reports them. */
export function nearLimits(keyId: string, workspaceId: string, nowMs: number): object[] {
  const [day, quota] = DEMO_PLANS.starter.policies
  const now = new Date(nowMs)
  const endOfMonth = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1)
  return [
    { keyId, used: 431, endsAt: nowMs + 5 * 3_600_000, ...windowOf(day) },
    { workspaceId, used: 8_412, endsAt: endOfMonth, ...windowOf(quota) },
  ]
}

type StarterPolicy = (typeof DEMO_PLANS.starter.policies)[number]

function windowOf(policy: StarterPolicy): object {
  const windowSeconds = 'windowSeconds' in policy ? policy.windowSeconds : null
  return { plan: 'starter', policy: policy.name, windowSeconds, requests: policy.requests }
}
