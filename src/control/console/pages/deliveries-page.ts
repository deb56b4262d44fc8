import { deliveryState } from '../../admin-api/delivery-calls.ts'
import type { Delivery } from '../../webhooks/delivery-rows.ts'
import { type Html, html, type Piece } from '../layout/html.ts'
import { type Frame, page } from '../layout/layout.ts'
import { auditPath, deliveriesPath, keyPath } from '../layout/paths.ts'
import { ago, instant } from '../layout/times.ts'

export interface DeliveriesView {
  readonly workspaceId: string
  readonly deliveries: readonly Delivery[]
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
  'key.expiring': 'Key about to expire',
  'key.expired': 'Key expired',
}

const STATES = {
  delivered: { label: 'Delivered', badge: 'active' },
  waiting: { label: 'Waiting', badge: 'retiring' },
  given_up: { label: 'Given up', badge: 'revoked' },
} as const

export function deliveriesPage(frame: Frame, view: DeliveriesView): Html {
  const { workspaceId, deliveries } = view
  const main = html`<p class="back"><a href="${auditPath(workspaceId)}">Audit trail</a></p>
    <h1>Webhook deliveries</h1>
    <p class="lead">Events about keys of this workspace, sent to the webhook in the last 30 days.
      Failed deliveries are retried for about 28 hours.</p>
    ${deliveries.length === 0 ? html`<p class="empty">No events yet.</p>` : table(view, frame.nowMs)}
    ${paging(view)}`
  return page(frame, { title: 'Webhook deliveries', section: 'audit', main })
}

function table({ workspaceId, deliveries }: DeliveriesView, nowMs: number): Html {
  return html`<table class="stacks">
    <caption class="hidden">Webhook events, newest first</caption>
    <thead><tr><th scope="col">Time</th><th scope="col">Event</th><th scope="col">Key</th><th scope="col">State</th><th scope="col">Last response</th></tr></thead>
    <tbody>${deliveries.map(delivery => row(workspaceId, delivery, nowMs))}</tbody>
  </table>`
}

function row(workspaceId: string, delivery: Delivery, nowMs: number): Html {
  const { atMs, type, keyId } = delivery
  const { label, badge } = STATES[deliveryState(delivery)]
  return html`<tr>
    <th scope="row">${instant(atMs)} <span class="muted small">${ago(atMs, nowMs)}</span></th>
    <td><span class="label" aria-hidden="true">Event</span><span>${TYPES[type]}</span></td>
    <td><span class="label" aria-hidden="true">Key</span><span class="breaks"><a href="${keyPath(workspaceId, keyId)}"><code>${keyId}</code></a></span></td>
    <td><span class="label" aria-hidden="true">State</span><span><span class="badge ${badge}">${label}</span></span></td>
    <td><span class="label" aria-hidden="true">Last response</span><span>${lastResponse(delivery, nowMs)}</span></td>
  </tr>`
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
