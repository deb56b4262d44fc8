import { isFinal } from '../../../domain/key/key-record.ts'
import type { AuditEntry } from '../../platform/audit/entries.ts'
import { ago, type Html, html, instant, markInvisible } from '../../platform/html/html.ts'
import type { KeyView } from './key-parts.ts'

/** Null for a key that was never reported as leaked. */
export function leakNotice(
  { key, leaks }: { readonly key: KeyView; readonly leaks: readonly AuditEntry[] },
  nowMs: number,
): Html | null {
  if (leaks.length === 0) return null
  const isRejected = isFinal(key.state)
  return html`<section class="notice ${isRejected ? '' : 'warn'}" aria-labelledby="leak">
    <h2 id="leak">Reported as leaked</h2>
    <ul>${leaks.map(entry => leakItem(entry, nowMs))}</ul>
    ${isRejected ? null : html`<p>Any person who has seen the key can use it. Replace it in your clients, then revoke it.</p>`}
  </section>`
}

/** The address is no link: a stranger may have chosen it. */
function leakItem({ atMs, detail }: AuditEntry, nowMs: number): Html {
  const foundAt = detail['foundAt']
  const place =
    typeof foundAt === 'string'
      ? html`, found at <span class="breaks">${markInvisible(foundAt)}</span>`
      : null
  return html`<li>${instant(atMs)} (${ago(atMs, nowMs)})${place}</li>`
}
