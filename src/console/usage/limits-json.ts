import { type Static, Type } from 'typebox'
import { toInstant } from '../../domain/instant.ts'
import { instant } from '../platform/http/fields.ts'
import type { LimitsInUse } from './limit-windows.ts'

const requests = Type.Integer({ minimum: 0 })
/** What is left of a rate limit, in the admin API. */
export const limitWindow = Type.Object(
  {
    policy: Type.String({ description: 'Its name' }),
    plan: Type.Union([Type.String(), Type.Null()], {
      description: 'Whose policy it is; null: of keys without a plan',
    }),
    per: Type.Union([Type.Literal('workspace'), Type.Literal('key')]),
    region: Type.Union([Type.String(), Type.Null()], { description: 'Null if the console names no regions' }),
    limit: requests,
    remaining: Type.Union([requests, Type.Null()], { description: 'Requests; null: unknown' }),
    resetsAt: Type.Union([instant, Type.Null()], {
      description: 'Null: the window begins with the next request, or unknown',
    }),
  },
  { title: 'LimitWindow' },
)

export function windowsJson({ plan, regions }: LimitsInUse): Static<typeof limitWindow>[] {
  return regions.flatMap(({ region, windows }) =>
    windows.map(({ policy, remaining, resetsAtMs }) => {
      const { name, per, requests: most } = policy
      const resetsAt = resetsAtMs === null ? null : toInstant(resetsAtMs)
      return { policy: name, plan, per, region, limit: most, remaining, resetsAt }
    }),
  )
}
