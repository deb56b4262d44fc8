import type { FastifyRequest } from 'fastify'
import type { Config } from '../../config/schema/schema.ts'
import { isKeyId } from '../../domain/id-form.ts'
import { type KeyRecord, type KeyState, keyState, type StoredKey } from '../../domain/key/key-record.ts'
import type { AuditEntry } from '../platform/audit/entries.ts'
import { ago, type Html, html } from '../platform/html/html.ts'
import { notFound, requireWorkspace } from '../platform/html/page-request.ts'
import { readParameter } from '../platform/http/request-context.ts'
import type { UsageService } from '../usage/index.ts'
import type { Registry } from './operations/registry.ts'
import { EXPIRING_SOON_MS } from './search/key-query.ts'

/** What the pages of keys use. */
export interface KeyPageParts {
  readonly registry: Registry
  readonly usage: Pick<UsageService, 'stores' | 'queries' | 'limits'>
  /** Each with a description of what it grants. */
  readonly scopes: Readonly<Record<string, string>>
  readonly routes: Config['routes']
  /** The API's public URL; null if none is configured. */
  readonly gatewayUrl: string | null
}

/** A key as pages show it. */
export interface KeyView {
  readonly record: KeyRecord
  readonly state: KeyState
  /** Null if no use was reported. */
  readonly lastUsedAtMs: number | null
}

/** The key of the path, in the workspace of the path. @throws if the person may not see it */
export async function requireKey(request: FastifyRequest, { stored }: Registry): Promise<StoredKey> {
  const workspaceId = requireWorkspace(request)
  const keyId = readParameter(request, 'keyId')
  const key = isKeyId(keyId) ? await stored.findById(keyId) : null
  if (key === null || key.record.workspaceId !== workspaceId) throw notFound()
  request.keyId = keyId
  return key
}

export async function readKeyView(record: KeyRecord, { uses, clock }: Registry): Promise<KeyView> {
  const lastUsedAtMs = await uses.findLastUse(record.id)
  return { record, state: keyState(record, clock.wallMs()), lastUsedAtMs }
}

/** After a change: nothing is read, since what follows the commit must not fail. @param before the same key, or null if it is new */
export function viewAfter(record: KeyRecord, before: KeyView | null, { clock }: Registry): KeyView {
  return { record, state: keyState(record, clock.wallMs()), lastUsedAtMs: before?.lastUsedAtMs ?? null }
}

/** Name of the person who did it, such as issue a key; null if the audit log has none. */
export function readActorName(entry: AuditEntry | null): string | null {
  const by = entry?.detail['by']
  return typeof by === 'string' ? by : null
}

const STATE_LABELS: Readonly<Record<KeyState, string>> = {
  active: 'Active',
  retiring: 'Retiring',
  suspended: 'Suspended',
  expired: 'Expired',
  revoked: 'Revoked',
}

export function isExpiring({ record, state }: KeyView, nowMs: number): boolean {
  return state === 'active' && record.expiresAtMs - nowMs <= EXPIRING_SOON_MS
}

export function stateBadge({ state }: Pick<KeyView, 'state'>): Html {
  return html`<span class="badge ${state}">${STATE_LABELS[state]}</span>`
}

/** @param most that are shown: the others are counted, and named for a pointer and a screen reader */
export function scopeList({ scopes }: Pick<KeyRecord, 'scopes'>, most = scopes.length): Html {
  const items = scopes.slice(0, most).map(scope => html`<li><code>${scope}</code></li>`)
  const others = scopes.slice(most)
  const names = others.join(', ')
  const more = html`<li class="muted small" title="${names}"><span aria-hidden="true">+${others.length} more</span><span class="hidden">${names}</span></li>`
  return html`<ul class="scopes">${items}${others.length === 0 ? null : more}</ul>`
}

/** When a key expires, below the heading "Expires", or when it ended. */
export function expiryHtml(key: KeyView, nowMs: number): Html {
  const { revokedAtMs, expiresAtMs } = key.record
  switch (key.state) {
    case 'revoked':
      return html`revoked ${ago(revokedAtMs ?? expiresAtMs, nowMs)}`
    case 'expired':
      return html`expired ${ago(expiresAtMs, nowMs)}`
    case 'retiring':
    case 'suspended':
      return ago(expiresAtMs, nowMs)
    case 'active':
      return isExpiring(key, nowMs)
        ? html`<strong class="soon">${ago(expiresAtMs, nowMs)}</strong>`
        : ago(expiresAtMs, nowMs)
  }
}
