import type { ApiDocument } from '../../domain/describe-api.ts'
import type { RouteConfig } from '../../domain/route.ts'
import type { createOperationCounter } from '../registry/operations/operation-counter.ts'
import type { Registry } from '../registry/registry.ts'
import type { WebhookDeliveries } from '../webhooks/webhook-deliveries.ts'

/** What the pages are made of. */
export interface PageDependencies {
  readonly registry: Registry
  /** What the webhook was told; null where there is none. */
  readonly deliveries: Pick<WebhookDeliveries, 'list'> | null
  readonly count: ReturnType<typeof createOperationCounter>
  /** Each with what it grants in words. */
  readonly scopes: Readonly<Record<string, string>>
  readonly routes: readonly RouteConfig[]
  readonly document: ApiDocument
  /** Where integrators find the API; null where nobody has said so. */
  readonly gatewayUrl: string | null
}
