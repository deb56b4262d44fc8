import type { ApiDocument } from '../../domain/describe-api.ts'
import type { RouteConfig } from '../../domain/route.ts'
import type { createOperationCount } from '../registry/operations/operation-count.ts'
import type { Registry } from '../registry/registry.ts'
import type { Notices } from '../webhooks/deliveries.ts'

/** What the pages are made of. */
export interface PageSources {
  readonly registry: Registry
  /** What the webhook was told; null where there is none. */
  readonly notices: Pick<Notices, 'list'> | null
  readonly count: ReturnType<typeof createOperationCount>
  /** Each with what it grants in words. */
  readonly scopes: Readonly<Record<string, string>>
  readonly routes: readonly RouteConfig[]
  readonly document: ApiDocument
  /** Where integrators find the API; null where nobody has said so. */
  readonly gatewayUrl: string | null
}
