import type { KeyRecord } from '../../domain/key/key-record.ts'
import type { StoredKey } from '../keys/rows/key-repository.ts'
import { hidden } from '../platform/html/form-parts.ts'
import { type Html, html, type Piece } from '../platform/html/html.ts'
import { hintHtml, keyLink } from '../platform/html/key-names.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import { olderDeliveriesPath } from '../platform/html/paths.ts'
import { ago, instant, instantText } from '../platform/html/times.ts'
import { deliveryState } from './delivery-calls.ts'
import type { Delivery } from './delivery-rows.ts'

export interface DeliveriesView {
  /** Path of the list. */
  readonly path: string
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

/** @param own link to the workspace's own webhook; null if there is none to set */
export function deliveriesPage(frame: Frame, view: DeliveriesView, own: string | null): Html {
  const main = html`<div class="title"><h1>Webhook deliveries</h1>${frame.mayChange ? testForm(frame, view) : null}</div>
    <p class="lead">Events about keys of this workspace, sent to the webhook in the last 30 days.
      Failed deliveries are retried for about 28 hours.</p>
    ${ownLink(own)}
    ${deliveryList(frame, view)}`
  return page(frame, { title: 'Webhook deliveries', section: 'deliveries', main })
}

/** Deliveries with their pages. */
export function deliveryList(frame: Frame, view: DeliveriesView): Html {
  const { deliveries } = view
  return html`${deliveries.length === 0 ? html`<p class="empty">No events yet.</p>` : table(frame, view)}
    ${paging(view)}`
}

function ownLink(own: string | null): Html | null {
  return own === null ? null : html`<p><a href="${own}">Webhook of this workspace</a></p>`
}

export function noWebhookPage(frame: Frame, own: string | null): Html {
  const main = html`<h1>Webhook deliveries</h1>
    <div class="empty"><h2>No webhook</h2>
      <p>A webhook tells another system when a key is issued, changed or about to expire. The operator of this console configures it with <code>console.webhook.url</code>.</p></div>
    ${ownLink(own)}`
  return page(frame, { title: 'Webhook deliveries', section: 'deliveries', main })
}

/** Of several clicks within a minute, one sends an event. */
export function testForm({ csrfToken }: Frame, { path }: Pick<DeliveriesView, 'path'>): Html {
  return html`<form method="post" action="${path}/test">${hidden({ _csrf: csrfToken })}<button>Send a test</button></form>`
}

function table(frame: Frame, { path, deliveries, keys }: DeliveriesView): Html {
  return html`<table class="stacks">
    <caption class="hidden">Webhook events, newest first</caption>
    <thead><tr><th scope="col">Time</th><th scope="col">Event</th><th scope="col">Key</th><th scope="col">State</th><th scope="col">Last response</th>${frame.mayChange ? html`<th scope="col"><span class="hidden">Action</span></th>` : null}</tr></thead>
    <tbody>${deliveries.map(delivery => row(frame, path, delivery, keys.get(delivery.keyId)?.record ?? null))}</tbody>
  </table>`
}

function row(frame: Frame, path: string, delivery: Delivery, record: KeyRecord | null): Html {
  const { nowMs } = frame
  const { atMs, type } = delivery
  const { label, badge } = STATES[deliveryState(delivery)]
  return html`<tr>
    <th scope="row">${instant(atMs)} <span class="muted small">${ago(atMs, nowMs)}</span></th>
    <td><span class="label" aria-hidden="true">Event</span><span>${TYPES[type]}</span></td>
    <td><span class="label" aria-hidden="true">Key</span><span class="breaks">${record === null ? '–' : html`${keyLink({ record })} ${hintHtml(record)}`}</span></td>
    <td><span class="label" aria-hidden="true">State</span><span><span class="badge ${badge}">${label}</span></span></td>
    <td><span class="label" aria-hidden="true">Last response</span><span>${lastResponse(delivery, nowMs)}</span></td>
    ${frame.mayChange ? html`<td>${againForm(frame, path, delivery)}</td>` : null}
  </tr>`
}

function againForm({ csrfToken }: Frame, path: string, delivery: Delivery): Html | null {
  if (deliveryState(delivery) === 'waiting') return null
  const action = `${path}/${delivery.id}/again`
  return html`<form method="post" action="${action}">${hidden({ _csrf: csrfToken })}<button class="small">Deliver again<span class="hidden"> the event of ${instantText(delivery.atMs)}</span></button></form>`
}

function lastResponse(delivery: Delivery, nowMs: number): Piece {
  const { attempts, lastStatus, lastError, nextAttemptAtMs } = delivery
  if (attempts === 0) return lastError ?? 'Not sent yet'
  const count = attempts === 1 ? '1 attempt' : `${attempts} attempts`
  if (lastError === null) return `${lastStatus}, after ${count}`
  const next = nextAttemptAtMs === null ? null : html`; next attempt ${ago(nextAttemptAtMs, nowMs)}`
  return html`${lastError}, after ${count}${next}`
}

function paging({ path, nextCursor, isFirstPage }: DeliveriesView): Html | null {
  if (isFirstPage && nextCursor === null) return null
  return html`<nav class="paging" aria-label="Pages">
    ${isFirstPage ? null : html`<a class="button" href="${path}">Newest deliveries</a>`}
    ${nextCursor === null ? null : html`<a class="button" rel="next" href="${olderDeliveriesPath(path, nextCursor)}">Older deliveries</a>`}
  </nav>`
}
