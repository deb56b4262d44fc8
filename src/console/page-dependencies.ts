import type { Config } from '../config/schema/schema.ts'
import type { ApiDocument } from '../domain/route/describe-api.ts'
import type { createOperationCounter } from './keys/operations/operation-counter.ts'
import type { Registry } from './keys/registry.ts'
import type { Sessions } from './sign-in/sessions.ts'
import type { PeopleParts } from './sign-in/signed-in-people.ts'
import type { UsageService } from './usage/create-usage-service.ts'
import type { RequestedDeliveries } from './webhooks/requested-deliveries.ts'
import type { WebhookDeliveries } from './webhooks/webhook-deliveries.ts'
import type { WorkspaceWebhooks } from './webhooks/workspaces/workspace-webhooks.ts'

/** What the routes of pages need. */
export interface PageDependencies {
  readonly registry: Registry
  readonly sessions: Pick<Sessions, 'endAll'>
  readonly people: PeopleParts
  /** Null if no webhook is configured. */
  readonly deliveries: (Pick<WebhookDeliveries, 'list'> & RequestedDeliveries) | null
  readonly usage: Pick<UsageService, 'stores' | 'queries'>
  /** Null if workspaces may not have webhooks. */
  readonly workspaceWebhooks: WorkspaceWebhooks | null
  readonly count: ReturnType<typeof createOperationCounter>
  /** Each with a description of what it grants. */
  readonly scopes: Readonly<Record<string, string>>
  readonly routes: Config['routes']
  readonly document: ApiDocument
  /** The API's public URL; null if none is configured. */
  readonly gatewayUrl: string | null
  /** Whether the API has the origin of the console. */
  readonly hasOriginOfGateway: boolean
}
