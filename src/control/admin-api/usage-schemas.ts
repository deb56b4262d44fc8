import { type Static, Type } from 'typebox'

const closed = { additionalProperties: false }
/** `parseUsageRange` checks the values. */
const instantText = Type.Optional(Type.String())
/** As of all lists: 1 to 200 in plain digits. */
const PAGE_LIMIT = '^(?:[1-9][0-9]?|1[0-9][0-9]|200)$'
export const REFUSAL_CURSOR = '^[0-9]{1,15}\\.[0-9a-f-]{36}$'

export const usageQuery = Type.Object(
  {
    from: instantText,
    to: instantText,
    step: Type.Optional(Type.Union([Type.Literal('hour'), Type.Literal('day')])),
  },
  closed,
)
export type UsageQuery = Static<typeof usageQuery>

export const refusalsQuery = Type.Object(
  {
    limit: Type.Optional(Type.String({ pattern: PAGE_LIMIT })),
    cursor: Type.Optional(Type.String({ pattern: REFUSAL_CURSOR })),
  },
  closed,
)
export type RefusalsQuery = Static<typeof refusalsQuery>

const instant = Type.String({ format: 'date-time' })
const numbers = Type.Record(Type.String(), Type.Integer({ minimum: 1 }))

export const usageAnswer = Type.Object(
  {
    step: Type.Union([Type.Literal('hour'), Type.Literal('day')]),
    from: instant,
    to: instant,
    usage: Type.Array(
      Type.Object(
        { at: instant, requests: Type.Integer({ minimum: 0 }), byCode: numbers, byRoute: numbers },
        closed,
      ),
    ),
  },
  closed,
)

export const refusalsAnswer = Type.Object(
  {
    refusals: Type.Array(
      Type.Object(
        {
          at: instant,
          route: Type.String(),
          code: Type.String(),
          reason: Type.String(),
          keyId: Type.String(),
          requestId: Type.String(),
          address: Type.String(),
        },
        closed,
      ),
    ),
    sampled: Type.Boolean(),
    hasMore: Type.Boolean(),
    cursor: Type.Optional(Type.String()),
  },
  closed,
)
