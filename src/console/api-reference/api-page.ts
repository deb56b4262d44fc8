import { denyScope } from '../../domain/authorize.ts'
import { DENIAL_REASONS, denialRow, type PublicError } from '../../domain/denial.ts'
import { parseJsonObject } from '../../domain/form/json.ts'
import type { ApiDocument, ApiOperation, ApiParameter } from '../../domain/route/describe-api.ts'
import type { JsonSchema } from '../../domain/route/response-schema.ts'
import { type RouteConfig, WORKSPACE_PARAMETER } from '../../domain/route/route.ts'
import { STATUS_CODES } from '../../http/node-http.ts'
import { curlExample, UNKNOWN_ADDRESS } from '../platform/html/code-examples.ts'
import { type FormFields, hidden, NO_PROBLEMS, textField, textInput } from '../platform/html/form-parts.ts'
import { type Html, html, withCode } from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import { apiPath, newKeyPath, openApiPath } from '../platform/html/paths.ts'
import { fieldOf, type TriedOutcome } from './try-request.ts'

/** @property responseSchema what the upstream returns */
type ReferencedRoute = RouteConfig & {
  readonly responseSchema?: { readonly schema: JsonSchema | null } | undefined
}

interface ApiView {
  readonly workspaceId: string
  readonly document: ApiDocument
  readonly routes: readonly ReferencedRoute[]
  /** The API's URL; null if none is configured. */
  readonly gatewayUrl: string | null
  /** Whether requests can be sent from here: the console forwards them. */
  readonly canTry: boolean
  /** The request that was sent; null for none. */
  readonly tried?: TriedRequest | null
}

export interface TriedRequest {
  /** Name of the route. */
  readonly route: string
  readonly fields: FormFields
  readonly outcome: TriedOutcome
}

export function apiPage(frame: Frame, view: ApiView): Html {
  const { workspaceId, document, routes, gatewayUrl } = view
  const operations = Object.entries(document.paths).map(([path, { get }]) =>
    operation(path, get, routes.find(route => route.path === path) ?? null, view),
  )
  const main = html`<div class="title"><h1>API reference</h1><a class="button" href="${openApiPath(workspaceId)}">OpenAPI document</a></div>
    <p class="lead">Endpoints for keys of workspace <strong>${workspaceId}</strong>. All are read-only and return JSON.</p>
    <section class="card"><h2>Before you start</h2>
      <p>Send a key with each request: <code>Authorization: Bearer wsk_…</code>. ${
        frame.mayChange
          ? html`<a href="${newKeyPath(workspaceId)}">Issue a key</a> with the scopes you need.`
          : 'Ask a manager of the workspace for a key with the scopes you need.'
      }</p>
      <p>${gatewayUrl === null ? html`In the commands, replace <code>${UNKNOWN_ADDRESS}</code> with the URL of the API.` : html`The URL of the API is <code>${gatewayUrl}</code>.`}
      Each command waits for you to paste the key and press Enter, which keeps it out of the shell’s history.</p>
      ${view.canTry ? keyForm(frame, view) : null}
    </section>
    ${operations}
    <section class="card"><h2>Errors</h2>
      <p>Error responses are JSON with a stable <code>code</code> for programs and an <code>error</code> text for people, which can be more precise than here.
        After a 429 or 503, wait for the number of seconds in <code>Retry-After</code>.</p>
      ${errorTable()}
    </section>`
  return page(frame, { title: 'API reference', section: 'api', main })
}

/** The form of all endpoints, so that the key is pasted once. It is never put into a page again. */
function keyForm({ csrfToken }: Frame, { workspaceId, gatewayUrl }: ApiView): Html {
  const hint = html`The console sends it to <code>${gatewayUrl}</code> with your request, and neither stores nor logs it. The API sees the address of the console`
  const field = { name: 'key', label: 'Key for trying requests', hint, problems: NO_PROBLEMS }
  return html`<form id="try" method="post" action="${apiPath(workspaceId)}" autocomplete="off">
    ${hidden({ _csrf: csrfToken })}${textInput(field, '', html`type="password" spellcheck="false"`)}</form>`
}

function operation(
  path: string,
  described: ApiOperation,
  route: ReferencedRoute | null,
  view: ApiView,
): Html {
  const { operationId, summary, description, parameters } = described
  const own = path.replace('{workspaceId}', view.workspaceId)
  const id = `command-${operationId}`
  return html`<section class="card endpoint" aria-labelledby="${operationId}">
    <h2 id="${operationId}">${summary ?? operationId}</h2>
    <p class="address"><span class="method">GET</span> <code>${own}</code></p>
    <p>${withCode(description)}</p>
    ${parameterTable(parameters)}
    <div class="copyable"><pre tabindex="0" aria-label="Command for ${operationId}"><code id="${id}">${curlExample(`${view.gatewayUrl ?? UNKNOWN_ADDRESS}${own}`)}</code></pre>
      <button type="button" data-copies="${id}" hidden>Copy</button></div>
    ${view.canTry ? trial(described, view) : null}
    ${responses(described, route, view.workspaceId)}
  </section>`
}

/** Values of the parameters, the button, and the response once there is one. Without the script, the page is loaded anew. */
function trial({ operationId, parameters }: ApiOperation, { workspaceId, tried = null }: ApiView): Html {
  const own = tried?.route === operationId ? tried : null
  const inputs = openParameters(parameters).map(({ name, in: place }) => {
    const label = html`<code>${name}</code>${place === 'query' ? html` <span class="muted">optional</span>` : null}<span class="hidden"> of ${operationId}</span>`
    const field = { name: fieldOf(operationId, name), label, hint: null, problems: NO_PROBLEMS }
    return textInput(field, textField(own?.fields ?? {}, field.name), html`form="try" spellcheck="false"`)
  })
  const id = `response-${operationId}`
  return html`<div class="trial">${inputs}
      <button form="try" name="route" value="${operationId}" formaction="${apiPath(workspaceId)}#${operationId}" data-output="${id}">Send request<span class="hidden"> to ${operationId}</span></button></div>
    <div id="${id}" role="status">${own === null ? null : triedOutcome(own.outcome)}</div>`
}

/** Without the workspace, which is already filled in. */
function parameterTable(parameters: readonly ApiParameter[]): Html | null {
  const open = openParameters(parameters)
  if (open.length === 0) return null
  const rows = open.map(
    ({ name, in: place, schema }) =>
      html`<tr><th scope="row"><code>${name}</code></th><td>${place === 'query' ? 'query, optional' : 'path'}</td><td>${rangeText(schema)}</td></tr>`,
  )
  return html`<table><caption>Parameters</caption>
    <thead><tr><th scope="col">Name</th><th scope="col">In</th><th scope="col">Allowed values</th></tr></thead>
    <tbody>${rows}</tbody></table>`
}

function openParameters(parameters: readonly ApiParameter[]): readonly ApiParameter[] {
  return parameters.filter(({ name }) => name !== WORKSPACE_PARAMETER)
}

function rangeText(schema: ApiParameter['schema']): string {
  const { type, minimum, maximum, maxLength, enum: values } = schema
  if (type === 'integer') return `a whole number from ${minimum} to ${maximum}`
  if (Array.isArray(values)) return `one of ${values.join(', ')}`
  return typeof maxLength === 'number' ? `1 to ${maxLength} characters of A-Z, a-z, 0-9, -, ., _, ~` : 'text'
}

function responses(
  { responses: byStatus, operationId }: ApiOperation,
  route: ReferencedRoute | null,
  workspaceId: string,
): Html {
  const rows = Object.entries(byStatus).map(
    ([status, { description }]) => html`<tr><th scope="row">${status}</th><td>${description}</td></tr>`,
  )
  const schema = route?.responseSchema?.schema ?? null
  const own = route?.answeredBy === 'gateway' ? exampleDescription(workspaceId, route.scope) : null
  return html`<details><summary>Responses<span class="hidden"> of ${operationId}</span></summary>
    <table><caption class="hidden">Responses of ${operationId}</caption>
    <thead><tr><th scope="col">Status</th><th scope="col">When</th></tr></thead><tbody>${rows}</tbody></table>
    ${own === null ? null : example('Response to a usable key', own)}
    ${schema === null ? null : example('JSON Schema of the response', JSON.stringify(schema, null, 2))}
    ${route?.scope === undefined ? null : example('Response to a key without the scope', scopeMissingResponse(route.scope))}</details>`
}

function example(label: string, text: string): Html {
  return html`<h3>${label}</h3><pre tabindex="0" aria-label="${label}"><code>${text}</code></pre>`
}

/** As a gateway describes a key. */
function exampleDescription(workspaceId: string, scope: string | undefined): string {
  const key = {
    workspaceId,
    scopes: scope === undefined ? [] : [scope],
    keyId: 'key_01KAJ…',
    hint: 'wsk_…x7Qf',
    expiresAt: '2027-02-18T09:00:00.000Z',
    plan: null,
  }
  return JSON.stringify(key, null, 2)
}

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
  return `HTTP/1.1 ${status} Forbidden
Content-Type: application/json; charset=utf-8
WWW-Authenticate: Bearer realm="postern"${challenge ?? ''}, scope="${scope}"

${JSON.stringify({ code, error: denyScope(scope).detail })}`
}

type Answer = Extract<TriedOutcome, { kind: 'answered' }>

/** What became of a request that was tried. Of a response each part is text. */
function triedOutcome(outcome: TriedOutcome): Html {
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
  const meanings: Readonly<Record<string, ErrorMeaning>> = ERROR_MEANINGS
  const found = meanings[`${status} ${code}`]
  // An error that the upstream made itself has none.
  if (found === undefined) return null
  return html`<p><code>${code}</code>: ${withCode(found.meaning)}. ${withCode(found.advice)}.</p>`
}

/** @returns null if the body is in another form than the errors of a gateway */
function readCode(body: string): string | null {
  const code = parseJsonObject(body)?.['code']
  return typeof code === 'string' ? code : null
}

function body({ body, isCut }: Answer): Html {
  if (body === null) return html`<p class="muted">The body is encoded, and is not shown.</p>`
  if (body === '') return html`<p class="muted">The response has no body.</p>`
  return html`<pre tabindex="0" aria-label="Body of the response"><code>${body}</code></pre>
    ${isCut ? html`<p class="muted">The body is longer: these are its first 64 KiB.</p>` : null}`
}

/** What an error of the API means, and what a client does about it. Text between backticks is code. */
interface ErrorMeaning {
  readonly meaning: string
  readonly advice: string
}

const INVALID_REQUEST: ErrorMeaning = {
  meaning:
    'The request or a query parameter is not valid, which the text explains, or the request took too long to arrive',
  advice: 'Correct the request; after 408 send it again',
}
const REQUEST_TOO_LARGE: ErrorMeaning = {
  meaning: 'The URL is over 8 KiB, or the headers are over 16 KiB or more than 100',
  advice: 'Send a smaller request',
}

/** A test compares it with the table of docs/integrators.md. */
export const ERROR_MEANINGS: Readonly<Record<PublicError, ErrorMeaning>> = {
  '400 invalid_request': INVALID_REQUEST,
  '401 key_expired': { meaning: 'The key has expired', advice: 'Use a new key' },
  '401 key_invalid': { meaning: 'The key is unknown or mistyped', advice: 'Check the key and the base URL' },
  '401 key_missing': {
    meaning: 'There is no key, or more than one',
    advice: 'Send one `Authorization: Bearer …` header',
  },
  '401 key_revoked': { meaning: 'The key was revoked', advice: 'Use a new key; ask why it was revoked' },
  '401 key_suspended': {
    meaning: 'The key is suspended for now',
    advice: 'Ask why it was suspended; keep the key, which may be resumed',
  },
  '403 address_not_allowed': {
    meaning: 'The key must not be used from the address that the text names',
    advice: "Call from an allowed network, or have the key's networks changed",
  },
  '403 scope_missing': {
    meaning: 'The key lacks the scope that the text and `WWW-Authenticate` name',
    advice: 'Get a key with this scope',
  },
  '404 not_found': {
    meaning: "The path does not exist, or the workspace is not the key's own",
    advice: "Check the path; `GET /api/v1/auth` shows the key's workspace",
  },
  '405 method_not_allowed': { meaning: 'The method is not GET', advice: 'Use GET' },
  '408 invalid_request': INVALID_REQUEST,
  '414 request_too_large': REQUEST_TOO_LARGE,
  '417 invalid_request': {
    meaning: 'The request has an `Expect` field other than `100-continue`',
    advice: 'Leave the field out',
  },
  '429 rate_limited': { meaning: 'A rate limit is exceeded', advice: 'Wait for `Retry-After`' },
  '431 request_too_large': REQUEST_TOO_LARGE,
  '500 internal_error': { meaning: 'The gateway failed', advice: 'Report `X-Request-Id`' },
  '502 upstream_error': {
    meaning: 'The upstream returned an invalid response, or none',
    advice: 'Retry with growing waits',
  },
  '503 key_store_unavailable': {
    meaning: 'The key cannot be verified at the moment; it may be valid',
    advice: 'Wait for `Retry-After`; keep the key',
  },
  '503 overloaded': {
    meaning: 'Too many requests are in flight, or the gateway is shutting down',
    advice: 'Wait for `Retry-After`',
  },
  '503 upstream_unavailable': { meaning: 'The upstream is unavailable', advice: 'Wait for `Retry-After`' },
  '504 upstream_timeout': {
    meaning: 'The upstream did not respond in time',
    advice: 'Retry with growing waits',
  },
}
