import { STATUS_CODES } from 'node:http'
import { type Html, html, withCode } from '../platform/html/html.ts'
import { findErrorMeaning } from './error-meaning.ts'
import type { TriedOutcome } from './try-request.ts'

type Answer = Extract<TriedOutcome, { kind: 'answered' }>

/** What became of a request that was tried. Of a response each part is text. */
export function triedOutcome(outcome: TriedOutcome): Html {
  if (outcome.kind !== 'answered') return html`<p class="notice warn">${outcome.text}</p>`
  const { status, headers, durationMs } = outcome
  const rows = headers.map(
    ([name, value]) =>
      html`<div><dt><code>${name}</code></dt><dd><code class="breaks">${value}</code></dd></div>`,
  )
  return html`<h3>Response</h3>
    <p><strong>${status} ${STATUS_CODES[status] ?? ''}</strong> after ${durationMs} ms</p>
    ${meaning(outcome)}
    ${body(outcome)}
    <details><summary>Headers</summary><dl class="facts">${rows}</dl></details>`
}

function meaning({ status, body }: Answer): Html | null {
  const code = status < 400 ? null : readCode(body ?? '')
  const found = code === null ? null : findErrorMeaning(status, code)
  if (found === null) return null
  return html`<p><code>${code}</code>: ${withCode(found.meaning)}. ${withCode(found.advice)}.</p>`
}

/** @returns null if the body is in another form than the errors of a gateway */
function readCode(body: string): string | null {
  try {
    const parsed: unknown = JSON.parse(body)
    const code = typeof parsed === 'object' && parsed !== null && 'code' in parsed ? parsed.code : null
    return typeof code === 'string' ? code : null
  } catch {
    return null
  }
}

function body({ body, isCut }: Answer): Html {
  if (body === null) return html`<p class="muted">The body is encoded, and is not shown.</p>`
  if (body === '') return html`<p class="muted">The response has no body.</p>`
  return html`<pre tabindex="0" aria-label="Body of the response"><code>${body}</code></pre>
    ${isCut ? html`<p class="muted">The body is longer: these are its first 64 KiB.</p>` : null}`
}
