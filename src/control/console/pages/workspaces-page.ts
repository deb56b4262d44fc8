import type { Problems } from '../forms/form-fields.ts'
import { errorSummary, textInput } from '../forms/form-parts.ts'
import { type Html, html } from '../layout/html.ts'
import { type Frame, page } from '../layout/layout.ts'
import { FIND_KEY, keysPath, WORKSPACES } from '../layout/paths.ts'

export interface WorkspacesView {
  readonly workspaces: readonly string[]
  readonly administrator: boolean
  /** What an administrator typed, and its problems. */
  readonly typed: string
  readonly problems: Problems
}

export function workspacesPage(frame: Frame, view: WorkspacesView): Html {
  const { workspaces, administrator, problems } = view
  const main = html`<h1>${workspaces.length === 0 && administrator ? 'Open a workspace' : 'Choose a workspace'}</h1>
    ${administrator ? html`<p><a class="button" href="${FIND_KEY}">Find a key</a></p>` : null}
    ${errorSummary(problems)}
    ${workspaces.length === 0 ? null : html`<ul class="tiles">${workspaces.map(tile)}</ul>`}
    ${administrator ? openAnyForm(view) : null}
    ${workspaces.length === 0 && !administrator ? noWorkspaces() : null}`
  return page(frame, { title: 'Workspaces', section: null, main })
}

function tile(workspaceId: string): Html {
  return html`<li><a href="${keysPath(workspaceId)}"><strong>${workspaceId}</strong><span class="muted">Keys, audit trail and API reference</span></a></li>`
}

function openAnyForm({ typed, problems }: WorkspacesView): Html {
  const field = {
    name: 'workspace',
    label: 'Workspace id',
    hint: 'As an administrator you can open any workspace',
    problems,
  }
  return html`<form class="card" method="get" action="${WORKSPACES}" novalidate>
    ${textInput(field, typed, html`type="text" spellcheck="false" autocapitalize="off" required`)}
    <div class="actions"><button class="primary">Open</button></div>
  </form>`
}

function noWorkspaces(): Html {
  return html`<div class="empty">
    <h2>No workspaces assigned</h2>
    <p>Your account at the sign-in provider lists no workspace. Ask its administrator to add one, then sign out and sign in again.</p>
  </div>`
}
