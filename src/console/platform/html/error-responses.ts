import { denyScope } from '../../../domain/authorize.ts'
import { DENIAL_REASONS, denialRow } from '../../../domain/denial.ts'
import { type Html, html } from './html.ts'

/** What a gateway responds to a request that it rejects, status by status. */
export function errorTable(): Html {
  const seen = new Map<string, Html>()
  for (const reason of DENIAL_REASONS) {
    const { status, code, text } = denialRow(reason)
    const line = html`<tr><th scope="row">${status}</th><td><code>${code}</code></td><td>${text}</td></tr>`
    // Several reasons have the same response: clients must not tell them apart.
    if (!seen.has(`${status} ${code} ${text}`)) seen.set(`${status} ${code} ${text}`, line)
  }
  const rows = [...seen].sort(([a], [b]) => Number.parseInt(a, 10) - Number.parseInt(b, 10))
  return html`<table class="plain"><caption class="hidden">Error responses</caption>
    <thead><tr><th scope="col">Status</th><th scope="col">Code</th><th scope="col">Text</th></tr></thead>
    <tbody>${rows.map(([, line]) => line)}</tbody></table>`
}

/** The whole response to a key that lacks a scope (RFC 6750, section 3.1). */
export function scopeMissingResponse(scope: string): string {
  const { status, code, challenge } = denialRow('scope_missing')
  const { detail } = denyScope(scope)
  return `HTTP/1.1 ${status} Forbidden
Content-Type: application/json; charset=utf-8
WWW-Authenticate: Bearer realm="postern"${challenge ?? ''}, scope="${scope}"

${JSON.stringify({ code, error: detail })}`
}
