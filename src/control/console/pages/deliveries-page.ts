import type { KeyRecord } from '../../../domain/key/key-record.ts'
import { deliveryState } from '../../admin-api/delivery-calls.ts'
import type { StoredKey } from '../../registry/database/key-repository.ts'
import type { Delivery } from '../../webhooks/delivery-rows.ts'
import { hidden } from '../forms/form-parts.ts'
import { type Html, html, type Piece } from '../layout/html.ts'
import { type Frame, page } from '../layout/layout.ts'
import { deliverAgainPath, deliveriesPath, testDeliveryPath } from '../layout/paths.ts'
import { ago, instant, instantText } from '../layout/times.ts'
import { hintOf, keyLink } from './key-parts.ts'

export interface DeliveriesView {
  readonly workspaceId: string
  readonly deliveries: readonly Delivery[]
  /** Those that the events are about, by id. */
  readonly keys: ReadonlyMap<string, Pick<StoredKey, 'record'>>
  readonly nextCursor: string | null
  readonly isFirstPage: boolean
}

const TYPES: Readonly<Record<Delivery['type'], string>> = {
  'key.issued': 'Key issued',
  'key.rotated': 'Key rotated',
  'key.revoked': 'Key revoked',
  'key.suspended': 'Key suspended',
  'key.resumed': 'Key resumed',
  'key.edited': 'Key edited',
  'key.imported': 'Key imported',
  'key.reported': 'Key reported as leaked',
  'key.expiring': 'Key about to expire',
  'key.expired': 'Key expired',
  test: 'Test',
}

const STATES = {
  delivered: { label: 'Delivered', badge: 'active' },
  waiting: { label: 'Waiting', badge: 'retiring' },
  given_up: { label: 'Given up', badge: 'revoked' },
} as const

export function deliveriesPage(frame: Frame, view: DeliveriesView): Html {
  const { deliveries } = view
  const main = html`<div class="title"><h1>Webhook deliveries</h1>${frame.mayChange ? testForm(frame, view) : null}</div>
    <p class="lead">Events about keys of this workspace, sent to the webhook in the last 30 days.
      Failed deliveries are retried for about 28 hours.</p>
    ${deliveries.length === 0 ? html`<p class="empty">No events yet.</p>` : table(frame, view)}
    ${paging(view)}`
  return page(frame, { title: 'Webhook deliveries', section: 'deliveries', main })
}

export function noWebhookPage(frame: Frame): Html {
  const main = html`<h1>Webhook deliveries</h1>
    <div class="empty"><h2>No webhook</h2>
      <p>A webhook tells another system when a key is issued, changed or about to expire. The operator of this console configures it with <code>console.webhook.url</code>.</p></div>`
  return page(frame, { title: 'Webhook deliveries', section: 'deliveries', main })
}

/** Of several clicks within a minute, one sends an event. */
function testForm({ csrfToken }: Frame, { workspaceId }: DeliveriesView): Html {
  return html`<form method="post" action="${testDeliveryPath(workspaceId)}">${hidden({ _csrf: csrfToken })}<button>Send a test</button></form>`
}

function table(frame: Frame, { workspaceId, deliveries, keys }: DeliveriesView): Html {
  return html`<table class="stacks">
    <caption class="hidden">Webhook events, newest first</caption>
    <thead><tr><th scope="col">Time</th><th scope="col">Event</th><th scope="col">Key</th><th scope="col">State</th><th scope="col">Last response</th>${frame.mayChange ? html`<th scope="col"><span class="hidden">Action</span></th>` : null}</tr></thead>
    <tbody>${deliveries.map(delivery => row(frame, workspaceId, delivery, keys.get(delivery.keyId)?.record ?? null))}</tbody>
  </table>`
}

function row(frame: Frame, workspaceId: string, delivery: Delivery, record: KeyRecord | null): Html {
  const { nowMs } = frame
  const { atMs, type } = delivery
  const { label, badge } = STATES[deliveryState(delivery)]
  return html`<tr>
    <th scope="row">${instant(atMs)} <span class="muted small">${ago(atMs, nowMs)}</span></th>
    <td><span class="label" aria-hidden="true">Event</span><span>${TYPES[type]}</span></td>
    <td><span class="label" aria-hidden="true">Key</span><span class="breaks">${record === null ? '–' : html`${keyLink({ record })} ${hintOf(record)}`}</span></td>
    <td><span class="label" aria-hidden="true">State</span><span><span class="badge ${badge}">${label}</span></span></td>
    <td><span class="label" aria-hidden="true">Last response</span><span>${lastResponse(delivery, nowMs)}</span></td>
    ${frame.mayChange ? html`<td>${againForm(frame, workspaceId, delivery)}</td>` : null}
  </tr>`
}

function againForm({ csrfToken }: Frame, workspaceId: string, delivery: Delivery): Html | null {
  if (deliveryState(delivery) === 'waiting') return null
  const action = deliverAgainPath(workspaceId, delivery.id)
  return html`<form method="post" action="${action}">${hidden({ _csrf: csrfToken })}<button class="small">Deliver again<span class="hidden"> the event of ${instantText(delivery.atMs)}</span></button></form>`
}

function lastResponse(delivery: Delivery, nowMs: number): Piece {
  const { attempts, lastStatus, lastError, nextAttemptAtMs } = delivery
  if (attempts === 0) return 'Not sent yet'
  const count = attempts === 1 ? '1 attempt' : `${attempts} attempts`
  if (lastError === null) return `${lastStatus}, after ${count}`
  const next = nextAttemptAtMs === null ? null : html`; next attempt ${ago(nextAttemptAtMs, nowMs)}`
  return html`${lastError}, after ${count}${next}`
}

function paging({ workspaceId, nextCursor, isFirstPage }: DeliveriesView): Html | null {
  if (isFirstPage && nextCursor === null) return null
  return html`<nav class="paging" aria-label="Pages">
    ${isFirstPage ? null : html`<a class="button" href="${deliveriesPath(workspaceId)}">Newest deliveries</a>`}
    ${nextCursor === null ? null : html`<a class="button" rel="next" href="${deliveriesPath(workspaceId, nextCursor)}">Older deliveries</a>`}
  </nav>`
}
