import { Type } from 'typebox'
import { optional, section } from './schema-parts.ts'

/** Each is four series of metrics, and a command to Redis with each request that it applies to. */
const MAX_POLICIES = 16

const policy = section({
  name: Type.String({ pattern: '^[a-z][a-z0-9-]{0,31}$' }),
  per: Type.Union([Type.Literal('workspace'), Type.Literal('key')]),
  route: optional(Type.String({ pattern: '^[a-z][a-z0-9-]{0,31}$' })),
  scope: optional(Type.String({ format: 'scope' })),
  requests: Type.Integer({ minimum: 1, maximum: 1_000_000_000 }),
  windowSeconds: Type.Integer({ minimum: 1, maximum: 86_400 }),
})

export const limits = section({
  replicas: Type.Integer({
    minimum: 1,
    maximum: 10_000,
    description:
      'Gateways that share the rate limits: each grants its part where Redis cannot be asked, or there is none',
  }),
  policies: Type.Array(policy, {
    maxItems: MAX_POLICIES,
    description: 'Rate limits, each of a workspace or of a key; without any nothing is counted',
  }),
})
