import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import type { FastifyInstance } from 'fastify'
import type { UnusedClaim, WorkspaceNames } from '../access/principal.ts'
import { type Html, html, markInvisible, type Piece } from './html.ts'
import {
  ALL_AUDIT,
  ALL_REFUSALS,
  apiPath,
  auditPath,
  deliveriesPath,
  FIND_KEY,
  keysPath,
  PEOPLE,
  refusalsPath,
  TOKENS,
  usagePath,
  WORKSPACES,
} from './paths.ts'

const A_YEAR_SECONDS = 31_536_000

/** A static file whose name holds a digest of its content, so that browsers may cache it forever. */
interface Asset {
  readonly path: string
  readonly type: string
  readonly body: Buffer
  readonly gzipped: Buffer
}

const STYLESHEET = readAsset('console.css', 'text/css; charset=utf-8')
export const SCRIPT = readAsset('console.js', 'text/javascript; charset=utf-8')
const ICON = readAsset('icon.svg', 'image/svg+xml')

function readAsset(file: string, type: string): Asset {
  const body = readFileSync(new URL(`./assets/${file}`, import.meta.url))
  const [name, ending] = file.split('.')
  return {
    path: `/assets/${name}.${hash('sha256', body).slice(0, 16)}.${ending}`,
    type,
    body,
    gzipped: gzipSync(body),
  }
}

/** They hold no secrets, so that their length may depend on their content. Pages are not compressed. */
export function registerAssets(scope: FastifyInstance): void {
  for (const { path, type, body, gzipped } of [STYLESHEET, SCRIPT, ICON]) {
    const headers = {
      'content-type': type,
      'cache-control': `public, max-age=${A_YEAR_SECONDS}, immutable`,
      vary: 'accept-encoding',
    }
    scope.get(path, (request, reply) =>
      acceptsGzip(request.headers['accept-encoding'])
        ? reply.headers({ ...headers, 'content-encoding': 'gzip' }).send(gzipped)
        : reply.headers(headers).send(body),
    )
  }
}

/** RFC 9110, section 12.5.3. A weight of zero refuses a coding. */
function acceptsGzip(accepted = ''): boolean {
  return accepted.split(',').some(coding => {
    const [name, weight = 'q=1'] = coding.split(';').map(text => text.trim().toLowerCase())
    return name === 'gzip' && Number(weight.replace('q=', '')) > 0
  })
}

/** What surrounds every page of a signed-in person. */
export interface Frame {
  readonly personName: string
  /** Null if none is chosen. */
  readonly workspaceId: string | null
  readonly workspaceNames: WorkspaceNames
  /** Whether the person can change to another one. */
  readonly mayChoose: boolean
  /** Whether the person can change keys of the workspace. */
  readonly mayChange: boolean
  readonly isAdministrator: boolean
  /** Null unless the person has more workspaces than the session holds. */
  readonly leftOut: { readonly granted: number; readonly used: number } | null
  /** What of their claims at sign-in was not used. */
  readonly unusedClaims: readonly UnusedClaim[]
  /** Whether a form of this page was sent after its session had expired. */
  readonly sessionExpired: boolean
  /** For forms. */
  readonly csrfToken: string
  readonly nowMs: number
}

/** The menu of a workspace. */
const NAVIGATION = {
  keys: { label: 'Keys', path: (workspaceId: string) => keysPath(workspaceId) },
  usage: { label: 'Usage', path: usagePath },
  refusals: { label: 'Rejections', path: (workspaceId: string) => refusalsPath(workspaceId) },
  audit: { label: 'Audit log', path: (workspaceId: string) => auditPath(workspaceId) },
  deliveries: { label: 'Webhook', path: deliveriesPath },
  api: { label: 'API reference', path: apiPath },
}
type Section = keyof typeof NAVIGATION

/** What the menu of an administrator offers besides. */
const ADMINISTRATION_MENU = [
  { label: 'Audit of all workspaces', path: ALL_AUDIT },
  { label: 'Rejections of all workspaces', path: ALL_REFUSALS },
  { label: 'Admin tokens', path: TOKENS },
  { label: 'Signed-in people', path: PEOPLE },
]

interface PageParts {
  /** Of the window; never text that a person entered. */
  readonly title: string
  readonly section: Section | null
  readonly main: Piece
  /** Whether the title says that something is to be fixed, which a screen reader reads first. */
  readonly isWrong?: boolean
  /** The page that replaces this one after some seconds where the script does not run. */
  readonly next?: { readonly path: string; readonly seconds: number } | null
}

const EXPIRED_NOTICE = html`<p class="notice warn" role="alert">Your session had expired. Nothing was changed: enter it again and submit the form.</p>`
const MARK = html`<img src="${ICON.path}" alt="" width="28" height="28">`

export function page(frame: Frame, { title, section, main, isWrong = false, next = null }: PageParts): Html {
  const { workspaceId } = frame
  const place = workspaceId === null ? '' : ` · ${workspaceId}`
  const head = next === null ? null : refreshWithoutScript(next)
  const attributes = html` data-now="${frame.nowMs}" data-search="${searchPath(frame)}"`
  return renderDocument(`${isWrong ? 'Error: ' : ''}${title}${place} · Postern`, head, attributes, [
    html`<header class="top"><div class="wide">
      <a class="brand" href="/">${MARK}Postern</a>
      ${workspaceId === null ? null : workspaceBadge(frame, workspaceId)}
      ${personMenu(frame)}
    </div>
    ${workspaceId === null ? null : navigation(workspaceId, section)}</header>`,
    html`<main id="main" class="wide" tabindex="-1">${frame.sessionExpired ? EXPIRED_NOTICE : null}${section === null ? leftOutNotice(frame) : null}${frame.unusedClaims.map(unusedClaimNotice)}${main}</main>`,
  ])
}

/** Where the shortcut `/` leads from a page without a search. */
function searchPath({ workspaceId, isAdministrator }: Frame): string {
  if (workspaceId === null && !isAdministrator) return `${FIND_KEY}#key`
  return `${keysPath(workspaceId)}#q`
}

function refreshWithoutScript({ path, seconds }: NonNullable<PageParts['next']>): Html {
  return html`<noscript><meta http-equiv="refresh" content="${seconds}; url='${path}'"></noscript>`
}

/** Also on the page of an error: a workspace that was left out seems not to exist. */
function leftOutNotice({ leftOut }: Frame): Html | null {
  if (leftOut === null) return null
  const { granted, used } = leftOut
  return html`<p class="notice warn">Your account has ${granted} workspaces. The console uses the first ${used} in the order of their ids. Ask the administrator of your accounts to grant fewer.</p>`
}

/** On every page: the person may lack rights that they should have. */
function unusedClaimNotice({ setting, claim, shape, remedy }: UnusedClaim): Html {
  return html`<p class="notice warn">${UNUSED[setting]}: the claim <code>${claim}</code> of your account at the sign-in provider is ${shape}. ${remedy}. Ask the administrator of your accounts, then sign out and sign in again.</p>`
}

const UNUSED: Readonly<Record<UnusedClaim['setting'], string>> = {
  workspacesClaim: 'The console cannot read which workspaces you have',
  workspaceNamesClaim: 'The console cannot read the names of workspaces',
  administratorClaim: 'The console cannot read whether you are an administrator',
  viewerClaim: 'The console cannot read whether you are a viewer',
}

/** A page without a person: signing in, and errors before that. */
export function barePage(title: string, main: Piece): Html {
  return renderDocument(
    `${title} · Postern`,
    null,
    null,
    html`<main id="main" class="alone" tabindex="-1">
    <p class="brand">${MARK}Postern</p>
    ${main}
  </main>`,
  )
}

function renderDocument(title: string, head: Piece, attributes: Piece, body: Piece): Html {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>${title}</title>
<link rel="icon" type="image/svg+xml" href="${ICON.path}">
<link rel="stylesheet" href="${STYLESHEET.path}">
<script src="${SCRIPT.path}" defer></script>
${head}
</head>
<body${attributes}>
<a class="skip" href="#main">Skip to content</a>
${body}
</body>
</html>
`
}

/** The name that the sign-in provider gives a workspace, to stand after its id. Others may have the same name. */
export function workspaceName(
  { workspaceNames }: Pick<Frame, 'workspaceNames'>,
  workspaceId: string,
): Html | null {
  // An id can be the name of a property that every object has.
  const name = Object.hasOwn(workspaceNames, workspaceId) ? workspaceNames[workspaceId] : undefined
  return name === undefined ? null : html` <span class="workspace-name">${markInvisible(name)}</span>`
}

function workspaceBadge(frame: Frame, workspaceId: string): Html {
  const change = html`<a href="${WORKSPACES}">Change<span class="hidden"> workspace</span></a>`
  return html`<p class="workspace"><span class="muted">Workspace</span> <strong>${workspaceId}</strong>${workspaceName(frame, workspaceId)}${
    frame.mayChoose ? html` ${change}` : null
  }</p>`
}

function personMenu({ personName, isAdministrator, csrfToken }: Frame): Html {
  const links = isAdministrator
    ? ADMINISTRATION_MENU.map(({ label, path }) => html`<a href="${path}">${label}</a>`)
    : null
  return html`<details class="person">
    <summary><span class="hidden">Signed in as </span><bdi>${personName}</bdi></summary>
    <form method="post" action="/sign-out">
      <input type="hidden" name="_csrf" value="${csrfToken}">
      ${links}
      <button class="plain">Sign out</button>
      <button class="plain" name="everywhere" value="yes">Sign out everywhere</button>
    </form>
  </details>`
}

function navigation(workspaceId: string, current: Section | null): Html {
  const items = Object.entries(NAVIGATION).map(([section, { label, path }]) => {
    const here = section === current ? html` aria-current="page"` : null
    return html`<li><a href="${path(workspaceId)}"${here}>${label}</a></li>`
  })
  return html`<nav aria-label="Workspace" class="wide"><ul>${items}</ul></nav>`
}
