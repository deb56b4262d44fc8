import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../domain/clock.ts'
import { plainPasted } from '../../domain/form/text.ts'
import { isWorkspaceId } from '../../domain/key/key-record.ts'
import {
  errorSummary,
  NO_PROBLEMS,
  type Problems,
  searchText,
  textField,
  textInput,
} from '../platform/html/form-parts.ts'
import { cell, type Html, html, type ListPlace, lastUsed, pageLinks } from '../platform/html/html.ts'
import { type Frame, page, workspaceName } from '../platform/html/layout.ts'
import {
  createFrame,
  notFound,
  readQuery,
  requireWorkspace,
  SHOWS,
  sendPage,
  signedInPerson,
} from '../platform/html/page-request.ts'
import {
  ALL_KEYS,
  ALL_USAGE,
  FIND_KEY,
  keysPath,
  WORKSPACES,
  workspacesPath,
} from '../platform/html/paths.ts'
import { listWorkspaces, type WorkspaceSources, type WorkspaceSummary } from './rows.ts'

const WORKSPACES_PER_PAGE = 50
/** Counted in some 20 ms. */
const MAX_KEYS_COUNTED = 50_000
const WORKSPACE_ID_EXPECTED =
  'Enter the id of a workspace: 1 to 128 letters, digits and the characters - . _ ~, such as ws_1'

export interface WorkspacePageParts extends WorkspaceSources {
  readonly clock: Clock
}

export function workspaceRoutes(scope: FastifyInstance, parts: WorkspacePageParts): void {
  scope.get('/', SHOWS, async (request, reply) => reply.redirect(startPath(request), 303))
  scope.get(WORKSPACES, SHOWS, (_, reply) => showWorkspaces(parts, reply))
  scope.get(`${WORKSPACES}/:workspaceId`, SHOWS, async (request, reply) =>
    reply.redirect(keysPath(requireWorkspace(request)), 303),
  )
  scope.get(`${WORKSPACES}/*`, SHOWS, async () => {
    throw notFound()
  })
}

/** A person with one workspace goes straight to it. */
function startPath(request: FastifyRequest): string {
  const { workspaces, administrator } = signedInPerson(request)
  const [first] = workspaces
  return first !== undefined && workspaces.length === 1 && !administrator ? keysPath(first) : WORKSPACES
}

async function showWorkspaces(
  { clock, ...sources }: WorkspacePageParts,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { workspaces, workspaceNames = {}, administrator } = signedInPerson(reply.request)
  const query = readQuery(reply.request)
  const sent = query['workspace'] !== undefined && administrator
  const typed = plainPasted(textField(query, 'workspace'))
  const q = searchText(textField(query, 'q'))
  if (sent && isWorkspaceId(typed)) return reply.redirect(keysPath(typed), 303)
  const problems: Problems = sent ? new Map([['workspace', WORKSPACE_ID_EXPECTED]]) : NO_PROBLEMS
  const cursor = textField(query, 'cursor')
  const afterId = isWorkspaceId(cursor) ? cursor : null
  const found = await listWorkspaces(sources, {
    workspaceIds: administrator ? null : workspaces,
    text: q === '' ? null : q,
    names: workspaceNames,
    limit: WORKSPACES_PER_PAGE,
    afterId,
    maxKeysCounted: MAX_KEYS_COUNTED,
  })
  const frame = createFrame(reply, { workspaceId: null, clock })
  const paging = { nextCursor: found.nextAfterId, isFirstPage: afterId === null }
  const view = { workspaces: found.workspaces, q, ...paging, typed, problems }
  return sendPage(reply, workspacesPage(frame, view), sent ? 422 : 200)
}

interface WorkspacesView extends ListPlace {
  readonly workspaces: readonly WorkspaceSummary[]
  readonly q: string
  /** What an administrator typed, and its problems. */
  readonly typed: string
  readonly problems: Problems
}

function workspacesPage(frame: Frame, view: WorkspacesView): Html {
  const { workspaces, q, problems, isFirstPage, nextCursor } = view
  const { isAdministrator } = frame
  const isEmpty = workspaces.length === 0 && q === '' && isFirstPage
  const isOnePage = isFirstPage && nextCursor === null && q === ''
  const main = html`<div class="title"><h1>Workspaces</h1>
      <div class="actions"><a class="button" href="${FIND_KEY}">Find a key</a>${isAdministrator ? html` <a class="button" href="${ALL_KEYS}">Keys of all workspaces</a> <a class="button" href="${ALL_USAGE}">Usage of all workspaces</a>` : null}</div>
    </div>
    ${errorSummary(problems)}
    ${isEmpty || (isOnePage && workspaces.length < 10) ? null : searchForm(frame, q)}
    ${workspaces.length === 0 ? emptyList(frame, view) : table(frame, workspaces)}
    ${pageLinks(view, cursor => workspacesPath({ q, cursor }))}
    ${isAdministrator ? openAnyForm(view) : null}`
  return page(frame, { title: 'Workspaces', section: null, main })
}

function searchForm({ workspaceNames }: Frame, q: string): Html {
  const part = Object.keys(workspaceNames).length === 0 ? 'id' : 'id or name'
  return html`<form class="search" role="search" method="get" action="${WORKSPACES}">
    <div class="field"><label for="q">Search</label>
      <input type="search" id="q" name="q" value="${q}" maxlength="100" autocomplete="off" spellcheck="false" placeholder="Part of a workspace ${part}"></div>
    <button>Search</button>
  </form>`
}

function table(frame: Frame, workspaces: readonly WorkspaceSummary[]): Html {
  return html`<table class="stacks">
    <caption class="hidden">Workspaces with the number of their keys</caption>
    <thead><tr><th scope="col">Workspace</th><th scope="col">Active</th><th scope="col">Expiring soon</th><th scope="col">Retiring</th><th scope="col">Suspended</th><th scope="col">Expired</th><th scope="col">Revoked</th><th scope="col">Last used</th></tr></thead>
    <tbody>${workspaces.map(workspace => row(frame, workspace))}</tbody>
  </table>`
}

function row(frame: Frame, workspace: WorkspaceSummary): Html {
  const { workspaceId, moreThan } = workspace
  return html`<tr>
    <th scope="row"><a class="key-name" href="${keysPath(workspaceId)}">${workspaceId}</a>${workspaceName(frame, workspaceId)}</th>
    ${moreThan === null ? countCells(workspace) : largeCell(moreThan)}
    ${cell('Last used', lastUsed(workspace, frame.nowMs))}
  </tr>`
}

/** Over the columns of all counts. */
function largeCell(moreThan: number): Html {
  return html`<td colspan="6"><span class="label" aria-hidden="true">Keys</span><span>More than ${moreThan}</span></td>`
}

function countCells({ workspaceId, keys, expiringSoon }: WorkspaceSummary): Html {
  const expiring = html`<a class="soon" href="${keysPath(workspaceId, { state: 'expiring' })}">${expiringSoon}</a>`
  return html`${cell('Active', keys.active)}
    ${cell('Expiring soon', expiringSoon === 0 ? 0 : expiring)}
    ${cell('Retiring', keys.retiring)}
    ${cell('Suspended', keys.suspended)}
    ${cell('Expired', keys.expired)}
    ${cell('Revoked', keys.revoked)}`
}

function emptyList({ isAdministrator }: Frame, { q, nextCursor }: WorkspacesView): Html {
  if (nextCursor !== null) {
    return html`<p class="empty">No match among the workspaces examined so far. “Next page” continues the search.</p>`
  }
  if (q !== '')
    return html`<p class="empty">No workspace matches. <a href="${WORKSPACES}">Show all workspaces</a></p>`
  if (isAdministrator) return html`<p class="empty">No workspace has a key yet.</p>`
  return html`<div class="empty">
    <h2>No workspaces assigned</h2>
    <p>Your account at the sign-in provider lists no workspace. Ask its administrator to add one, then sign out and sign in again.</p>
  </div>`
}

function openAnyForm({ typed, problems }: WorkspacesView): Html {
  const field = {
    name: 'workspace',
    label: 'Workspace id',
    hint: 'As an administrator you can open any workspace, also one without keys',
    problems,
  }
  return html`<form class="card" method="get" action="${WORKSPACES}" novalidate>
    ${textInput(field, typed, html`type="text" spellcheck="false" autocapitalize="off" required`)}
    <div class="actions"><button class="primary">Open</button></div>
  </form>`
}
