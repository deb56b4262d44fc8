import type { Registry } from '../keys/registry.ts'
import type { RequestedDeliveries } from './requested-deliveries.ts'
import type { WebhookDeliveries } from './webhook-deliveries.ts'
import type { WorkspaceWebhooks } from './workspaces/workspace-webhooks.ts'

/** What the pages of webhooks use. */
export interface WebhookPageParts {
  readonly registry: Registry
  /** Null if no webhook is configured. */
  readonly deliveries: (Pick<WebhookDeliveries, 'list'> & RequestedDeliveries) | null
  /** Null if workspaces may not have webhooks. */
  readonly workspaceWebhooks: WorkspaceWebhooks | null
}
