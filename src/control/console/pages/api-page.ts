import type { ApiDocument, ApiOperation, ApiParameter } from '../../../domain/describe-api.ts'
import { type Html, html } from '../layout/html.ts'
import { type Frame, page } from '../layout/layout.ts'
import { newKeyPath, openApiPath } from '../layout/paths.ts'

export interface ApiView {
  readonly workspaceId: string
  readonly document: ApiDocument
  /** Where the API is; null where nobody has configured it. */
  readonly gatewayUrl: string | null
}

/** Stands for an address that the console does not know. */
export const UNKNOWN_ADDRESS = '$API'

export function apiPage(frame: Frame, view: ApiView): Html {
  const { workspaceId, document, gatewayUrl } = view
  const operations = Object.entries(document.paths).map(([path, { get }]) => operation(path, get, view))
  const main = html`<div class="title"><h1>API reference</h1><a class="button" href="${openApiPath(workspaceId)}">OpenAPI document</a></div>
    <p class="lead">Everything a key of workspace <strong>${workspaceId}</strong> can ask. All of it is read-only, and answers JSON.</p>
    <section class="card"><h2>Before you start</h2>
      <p>Each request carries a key: <code>Authorization: Bearer wsk_…</code>. <a href="${newKeyPath(workspaceId)}">Issue one</a> with the scopes that you need.</p>
      <p>${gatewayUrl === null ? html`In the commands, <code>${UNKNOWN_ADDRESS}</code> stands for the address of the API.` : html`The API is at <code>${gatewayUrl}</code>.`}
      Commands take the key from the variable <code>KEY</code>, so that it does not stay in the shell's history.</p>
    </section>
    ${operations}
    <section class="card"><h2>Errors</h2>
      <p>Every answer that is not a success is JSON with a stable <code>code</code> for programs and an <code>error</code> for people:</p>
      <pre tabindex="0" aria-label="Example of an error"><code>{"code":"scope_missing","error":"The key lacks the scope files:read"}</code></pre>
      <p>With 429 and 503, wait for as many seconds as <code>Retry-After</code> says.</p>
    </section>`
  return page(frame, { title: 'API reference', section: 'api', main })
}

function operation(path: string, described: ApiOperation, { workspaceId, gatewayUrl }: ApiView): Html {
  const { operationId, summary, description, parameters } = described
  const own = path.replace('{workspaceId}', workspaceId)
  const command = `curl -sS "${gatewayUrl ?? UNKNOWN_ADDRESS}${own}" \\\n  -H "Authorization: Bearer $KEY"`
  const id = `command-${operationId}`
  return html`<section class="card endpoint" aria-labelledby="${operationId}">
    <h2 id="${operationId}">${summary ?? operationId}</h2>
    <p class="address"><span class="method">GET</span> <code>${own}</code></p>
    <p>${withCode(description)}</p>
    ${parameterTable(parameters)}
    <div class="copyable"><pre tabindex="0" aria-label="Command for ${operationId}"><code id="${id}">${command}</code></pre>
      <button type="button" data-copies="${id}" hidden>Copy</button></div>
    ${responses(described)}
  </section>`
}

/** The workspace is filled in already. */
function parameterTable(parameters: readonly ApiParameter[]): Html | null {
  const open = parameters.filter(({ name }) => name !== 'workspaceId')
  if (open.length === 0) return null
  const rows = open.map(
    ({ name, in: place, schema }) =>
      html`<tr><th scope="row"><code>${name}</code></th><td>${place === 'query' ? 'query, may be left out' : 'path'}</td><td>${rangeText(schema)}</td></tr>`,
  )
  return html`<table><caption>Parameters</caption>
    <thead><tr><th scope="col">Name</th><th scope="col">Where</th><th scope="col">What it may be</th></tr></thead>
    <tbody>${rows}</tbody></table>`
}

function rangeText(schema: ApiParameter['schema']): string {
  const { type, minimum, maximum, maxLength, enum: values } = schema
  if (type === 'integer') return `a whole number from ${minimum} to ${maximum}`
  if (Array.isArray(values)) return `one of ${values.join(', ')}`
  return typeof maxLength === 'number' ? `1 to ${maxLength} characters of A-Z, a-z, 0-9, -, ., _, ~` : 'text'
}

function responses({ responses: byStatus, operationId }: ApiOperation): Html {
  const rows = Object.entries(byStatus).map(
    ([status, { description }]) => html`<tr><th scope="row">${status}</th><td>${description}</td></tr>`,
  )
  return html`<details><summary>Answers<span class="hidden"> of ${operationId}</span></summary>
    <table><caption class="hidden">Answers of ${operationId}</caption>
    <thead><tr><th scope="col">Status</th><th scope="col">When</th></tr></thead><tbody>${rows}</tbody></table></details>`
}

/** What stands between backticks is code. */
function withCode(text: string): Html {
  return html`${text.split('`').map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part))}`
}
