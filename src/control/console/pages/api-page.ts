import type { ApiDocument, ApiOperation, ApiParameter } from '../../../domain/describe-api.ts'
import { type Html, html } from '../layout/html.ts'
import { type Frame, page } from '../layout/layout.ts'
import { newKeyPath, openApiPath } from '../layout/paths.ts'
import { curlExample, UNKNOWN_ADDRESS } from './code-examples.ts'

export interface ApiView {
  readonly workspaceId: string
  readonly document: ApiDocument
  /** The API's URL; null if none is configured. */
  readonly gatewayUrl: string | null
}

export function apiPage(frame: Frame, view: ApiView): Html {
  const { workspaceId, document, gatewayUrl } = view
  const operations = Object.entries(document.paths).map(([path, { get }]) => operation(path, get, view))
  const main = html`<div class="title"><h1>API reference</h1><a class="button" href="${openApiPath(workspaceId)}">OpenAPI document</a></div>
    <p class="lead">Endpoints for keys of workspace <strong>${workspaceId}</strong>. All are read-only and return JSON.</p>
    <section class="card"><h2>Before you start</h2>
      <p>Send a key with each request: <code>Authorization: Bearer wsk_…</code>. <a href="${newKeyPath(workspaceId)}">Issue a key</a> with the scopes you need.</p>
      <p>${gatewayUrl === null ? html`In the commands, replace <code>${UNKNOWN_ADDRESS}</code> with the URL of the API.` : html`The URL of the API is <code>${gatewayUrl}</code>.`}
      Each command waits for you to paste the key and press Enter, which keeps it out of the shell’s history.</p>
    </section>
    ${operations}
    <section class="card"><h2>Errors</h2>
      <p>Error responses are JSON with a stable <code>code</code> for programs and an <code>error</code> text for people:</p>
      <pre tabindex="0" aria-label="Example error response"><code>{"code":"scope_missing","error":"The key lacks the scope files:read"}</code></pre>
      <p>After a 429 or 503, wait for the number of seconds in <code>Retry-After</code>.</p>
    </section>`
  return page(frame, { title: 'API reference', section: 'api', main })
}

function operation(path: string, described: ApiOperation, { workspaceId, gatewayUrl }: ApiView): Html {
  const { operationId, summary, description, parameters } = described
  const own = path.replace('{workspaceId}', workspaceId)
  const command = curlExample(`${gatewayUrl ?? UNKNOWN_ADDRESS}${own}`)
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

/** Without the workspace, which is already filled in. */
function parameterTable(parameters: readonly ApiParameter[]): Html | null {
  const open = parameters.filter(({ name }) => name !== 'workspaceId')
  if (open.length === 0) return null
  const rows = open.map(
    ({ name, in: place, schema }) =>
      html`<tr><th scope="row"><code>${name}</code></th><td>${place === 'query' ? 'query, optional' : 'path'}</td><td>${rangeText(schema)}</td></tr>`,
  )
  return html`<table><caption>Parameters</caption>
    <thead><tr><th scope="col">Name</th><th scope="col">In</th><th scope="col">Allowed values</th></tr></thead>
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
  return html`<details><summary>Responses<span class="hidden"> of ${operationId}</span></summary>
    <table><caption class="hidden">Responses of ${operationId}</caption>
    <thead><tr><th scope="col">Status</th><th scope="col">When</th></tr></thead><tbody>${rows}</tbody></table></details>`
}

/** Renders text between backticks as code. */
function withCode(text: string): Html {
  return html`${text.split('`').map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part))}`
}
