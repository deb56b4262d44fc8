import type { Clock } from '../../domain/clock.ts'
import type { WebhookDeliveries } from './webhook-deliveries.ts'

const MINUTE_MS = 60_000

/** Deliveries that a person asks for. */
export interface RequestedDeliveries {
  /** Sends an event of type `test`; at most one a minute for each workspace. */
  sendTest(workspaceId: string): Promise<void>
  /** Sends an event again that was delivered or given up; any other stays as it is. */
  sendAgain(event: { readonly workspaceId: string; readonly id: string }): Promise<void>
}

export function createRequestedDeliveries(
  deliveries: Pick<WebhookDeliveries, 'receiver' | 'insert' | 'makeDue'>,
  clock: Clock,
  newEventId: (nowMs: number) => string,
): RequestedDeliveries {
  return {
    async sendTest(workspaceId) {
      const atMs = clock.wallMs()
      const timestamp = new Date(atMs).toISOString()
      const event = {
        receiver: deliveries.receiver,
        id: newEventId(atMs),
        workspaceId,
        keyId: '',
        type: 'test',
        deduplicationKey: `test:${workspaceId}:${Math.floor(atMs / MINUTE_MS)}`,
        atMs,
        body: JSON.stringify({ type: 'test', timestamp, data: { workspaceId } }),
      } as const
      await deliveries.insert([event])
    },
    sendAgain: event => deliveries.makeDue(event),
  }
}
