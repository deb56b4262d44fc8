import { DENIAL_REASONS, type DenialReason, denialRow } from '../../domain/denial.ts'
import type { KeyRecord, KeysById } from '../../domain/key/key-record.ts'
import {
  clock,
  exactInstantAndAgo,
  fact,
  type Html,
  hintHtml,
  html,
  keyLink,
  nameHtml,
  type OpeningLine,
  openingLines,
} from '../platform/html/html.ts'
import type { Frame } from '../platform/html/layout.ts'
import { refusalsPath } from '../platform/html/paths.ts'
import type { Refusal } from './reports/check-report.ts'

type Place = Pick<Frame, 'workspaceId' | 'nowMs'>

/** A line for each rejection, which opens to all that is known of it. @param keys those of the rejections, by id */
export function refusalList(refusals: readonly Refusal[], keys: KeysById, place: Place): Html {
  const lines = refusals.map(refusal => line(refusal, keys.get(refusal.keyId)?.record ?? null, place))
  return openingLines('Rejections, newest first', lines)
}

function line(refusal: Refusal, record: KeyRecord | null, { workspaceId, nowMs }: Place): OpeningLine {
  const { atMs, code, reason, keyId, route, requestId, address } = refusal
  const explanation = explainRefusal(reason)
  const owner = workspaceId === null ? refusal.workspaceId : null
  const id = html`<code>${keyId}</code>`
  const name =
    record === null ? id : html`<span class="key-name">${nameHtml(record)}</span> ${hintHtml(record)}`
  return {
    summary: [
      html`<span>${clock(atMs, nowMs)}</span>`,
      html`<span class="about"><code>${code}</code></span>`,
      html`<span class="about">${owner === null ? null : html`<span class="muted">${owner}</span> `}${name}</span>`,
      html`<span class="about why">${explanation ?? html`<code>${reason}</code>`}</span>`,
    ],
    facts: [
      fact('Time', exactInstantAndAgo(atMs, nowMs)),
      owner === null
        ? null
        : fact('Workspace', html`<a class="breaks" href="${refusalsPath(owner)}">${owner}</a>`),
      fact('Key', record === null ? id : html`${keyLink({ record })} ${id}`),
      fact('Code', html`<code>${code}</code>`),
      fact(
        'Reason',
        html`${explanation === null ? null : html`${explanation}<br>`}<code class="muted">${reason}</code>`,
      ),
      fact('Route', html`<code class="breaks">${route}</code>`),
      fact('Request id', html`<code class="breaks">${requestId}</code>`),
      fact('Client', html`<code>${address}</code>`),
    ],
  }
}

/** Where clients get a text that says less on purpose, or that does not suit the owner of the key. */
const CLEARER: Partial<Readonly<Record<DenialReason, string>>> = {
  other_workspace: 'The path names another workspace than the one of the key',
  upstream_not_found: 'The upstream has no such resource',
  scope_missing: 'The key lacks the scope that the route requires',
  address_not_allowed: 'The client’s address is not among the allowed addresses of the key',
}

/** @returns null for a reason of a newer gateway */
export function explainRefusal(reason: string): string | null {
  const known = DENIAL_REASONS.find(name => name === reason)
  return known === undefined ? null : (CLEARER[known] ?? denialRow(known).text)
}
