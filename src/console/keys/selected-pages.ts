import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { isKeyId } from '../../domain/id-form.ts'
import { type KeyRecord, keyState } from '../../domain/key/key-record.ts'
import { may } from '../platform/access/principal.ts'
import { hidden, listField, textField } from '../platform/html/form-parts.ts'
import { cell, type Html, hintHtml, html, keyLink, lastUsed } from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import { problemPage } from '../platform/html/page-errors.ts'
import {
  ADMINISTRATION,
  ADMINISTRATION_CHANGES,
  CHANGE_FORMS,
  CHANGES,
  createFrame,
  readFormFields,
  readQuery,
  requireWorkspace,
  sendPage,
} from '../platform/html/page-request.ts'
import { EXPIRED, keysPath, selectedKeysPath, WORKSPACES } from '../platform/html/paths.ts'
import { describeCaller, requirePrincipal } from '../platform/http/request-context.ts'
import { type ChangedKey, changeSelected, type SelectedOutcome } from './bulk-change.ts'
import { describeExtent, watchedSteps } from './bulk-progress-page.ts'
import { keyListPath, keyListQuery, readKeyList } from './key-list.ts'
import { type KeyPageParts, type KeyView, stateBadge } from './key-view.ts'
import { type StateStep, stepsFrom } from './operations/key-operations.ts'

/** More than a page of the list has. */
const MAX_SELECTED = 100

interface StepTexts {
  readonly verb: string
  readonly done: string
  readonly follows: string
}

const STEPS: Readonly<Record<StateStep, StepTexts>> = {
  suspend: {
    verb: 'Suspend',
    done: 'suspended',
    follows:
      'All gateways reject them within one second, until you resume them. Their expiry does not change.',
  },
  resume: {
    verb: 'Resume',
    done: 'resumed',
    follows: 'Gateways accept them again, until they expire or are revoked.',
  },
  revoke: {
    verb: 'Revoke',
    done: 'revoked',
    follows: 'All gateways reject them within one second. This cannot be undone.',
  },
}

const PATH = 'keys/selected'

/** Suspending, resuming and revoking keys that were selected in a list: a question, and what became of each. */
export function selectedRoutes(scope: FastifyInstance, parts: KeyPageParts): void {
  const own = `${WORKSPACES}/:workspaceId/${PATH}`
  // Where signing in leads, after the session of the form had expired.
  const showList = (workspaceId: string | null, request: FastifyRequest, reply: FastifyReply) =>
    reply.redirect(keysPath(workspaceId, { [EXPIRED]: textField(readQuery(request), EXPIRED) || null }), 303)
  scope.get(own, CHANGE_FORMS, async (request, reply) => showList(requireWorkspace(request), request, reply))
  scope.get(`/${PATH}`, ADMINISTRATION, async (request, reply) => showList(null, request, reply))
  scope.post(own, CHANGES, (request, reply) => change(parts, reply, requireWorkspace(request)))
  scope.post(`/${PATH}`, ADMINISTRATION_CHANGES, (_, reply) => change(parts, reply, null))
}

interface Selection {
  /** Null: keys of all workspaces. */
  readonly workspaceId: string | null
  readonly step: StateStep
  /** The list, as it was. */
  readonly listPath: string
  readonly formPath: string
}

async function change(
  { registry, scopes }: KeyPageParts,
  reply: FastifyReply,
  workspaceId: string | null,
): Promise<FastifyReply> {
  const { request } = reply
  const fields = readFormFields(request)
  const ids = [...new Set(listField(fields, 'key'))].filter(isKeyId)
  const name = textField(fields, 'step')
  const step = Object.hasOwn(STEPS, name) ? (name as StateStep) : null
  const frame = createFrame(reply, { workspaceId, clock: registry.clock })
  const known = { scopes: Object.keys(scopes), plans: registry.knownPlans }
  const cursor = textField(readQuery(request), 'cursor')
  const list = { ...readKeyList(readQuery(request), known), cursor }
  const listPath = keyListPath(workspaceId, list)
  if (step === null || ids.length > MAX_SELECTED) return reject(frame, reply, listPath, TOO_MANY)
  const records = await readRecords(registry, request, ids, workspaceId)
  if (records.length === 0) return reject(frame, reply, listPath, NONE)
  const formPath = selectedKeysPath(workspaceId, keyListQuery(list))
  const selection = { workspaceId, step, listPath, formPath }
  const uses = await registry.uses.lastUses(records.map(({ id }) => id))
  const nowMs = registry.clock.wallMs()
  const keys = records.map(record => ({
    record,
    state: keyState(record, nowMs),
    lastUsedAtMs: uses.get(record.id) ?? null,
  }))
  if (textField(fields, 'confirmed') !== '1') return sendPage(reply, questionPage(frame, selection, keys))
  const context = { caller: describeCaller(request), idempotency: null }
  const outcome = await changeSelected(registry, keys, step, context)
  return sendPage(reply, outcomePage(frame, selection, outcome))
}

/** Those that the person may change, in the order of the list. Others are left out like unknown ones. */
async function readRecords(
  { stored }: KeyPageParts['registry'],
  request: FastifyRequest,
  ids: readonly string[],
  workspaceId: string | null,
): Promise<readonly KeyRecord[]> {
  const found = await stored.findByIds(ids)
  return ids.flatMap(id => {
    const record = found.get(id)?.record
    const isHere = record !== undefined && (workspaceId === null || record.workspaceId === workspaceId)
    return isHere && may(requirePrincipal(request), 'keys:write', record.workspaceId) ? record : []
  })
}

const NONE = {
  title: 'No key is selected',
  text: 'Check the boxes of the keys to change, then choose again.',
}
const TOO_MANY = { title: 'Too many keys', text: `Select at most ${MAX_SELECTED} keys, and choose again.` }

function reject(frame: Frame, reply: FastifyReply, listPath: string, problem: typeof NONE): FastifyReply {
  const next = { path: listPath, text: 'Back to the list' }
  return sendPage(reply, problemPage(frame, { ...problem, requestId: null, next }), 422)
}

function questionPage(frame: Frame, selection: Selection, keys: readonly KeyView[]): Html {
  const { step, listPath, formPath } = selection
  const { verb, done, follows } = STEPS[step]
  const changed = keys.filter(({ state }) => stepsFrom(state).includes(step))
  const left = keys.filter(({ state }) => !stepsFrom(state).includes(step))
  const title = changed.length === 0 ? 'Nothing to change' : `${verb} ${describeExtent(changed.length)}?`
  const question = html`<form class="card" method="post" action="${formPath}">
      ${hidden({ _csrf: frame.csrfToken, step, confirmed: '1' })}
      ${changed.map(({ record }) => hidden({ key: record.id }))}
      ${keyTable(frame, selection, changed)}
      <div class="actions"><a class="button" href="${listPath}" autofocus>${step === 'resume' ? 'Keep them suspended' : 'Keep them'}</a> <button class="${step === 'resume' ? 'primary' : 'danger'}">${verb} now</button></div>
    </form>`
  const main = html`<p class="back"><a href="${listPath}">Keys</a></p>
    <h1>${title}</h1>
    ${changed.length === 0 ? null : html`<p class="lead">${follows}</p>${question}`}
    ${left.length === 0 ? null : html`<section class="card" aria-labelledby="left"><h2 id="left">Not to be ${done}</h2>${keyTable(frame, selection, left)}</section>`}`
  return page(frame, { title, section: 'keys', main })
}

function keyTable(
  { nowMs }: Frame,
  { workspaceId }: Selection,
  keys: readonly KeyView[],
  outcomeOf: ((key: KeyView) => string) | null = null,
): Html {
  const workspace = ({ record }: KeyView) => html`<span class="breaks">${record.workspaceId}</span>`
  return html`<table class="stacks">
    <caption class="hidden">Selected keys</caption>
    <thead><tr><th scope="col">Name</th>${workspaceId === null ? html`<th scope="col">Workspace</th>` : null}<th scope="col">Hint</th><th scope="col">State</th><th scope="col">${outcomeOf === null ? 'Last used' : 'Outcome'}</th></tr></thead>
    <tbody>${keys.map(
      key => html`<tr><th scope="row">${keyLink(key)}</th>
      ${workspaceId === null ? cell('Workspace', workspace(key)) : null}
      ${cell('Hint', hintHtml(key.record))}${cell('State', stateBadge(key))}
      ${outcomeOf === null ? cell('Last used', lastUsed(key, nowMs)) : cell('Outcome', outcomeOf(key))}</tr>`,
    )}</tbody>
  </table>`
}

function outcomePage(frame: Frame, selection: Selection, { keys, progress }: SelectedOutcome): Html {
  const { step, listPath } = selection
  const { done } = STEPS[step]
  const isChanged = ({ outcome }: ChangedKey) => outcome === 'changed'
  const changed = keys.filter(isChanged).length
  const title = `${describeExtent(changed)} ${done}`
  const texts: Readonly<Record<ChangedKey['outcome'], string>> = {
    changed: `${done.charAt(0).toUpperCase()}${done.slice(1)}`,
    unchanged: 'Nothing to change',
    final: 'Had ended before',
    gave_up: 'Not changed: others kept changing it. Try again',
    unknown: 'Not known: look at the key before you try again',
  }
  const outcomes = new Map(keys.map(({ key, outcome }) => [key.record.id, texts[outcome]]))
  const main = html`<p class="back"><a href="${listPath}">Keys</a></p>
    <h1>${title}</h1>
    <p class="lead" role="status">${changed === keys.length ? 'Each key that you selected was changed.' : `${keys.length - changed} of ${describeExtent(keys.length)} not changed.`}</p>
    ${progress === null ? null : watchedSteps(frame, progress)}
    ${keyTable(
      frame,
      selection,
      keys.map(({ key }) => key),
      ({ record }) => outcomes.get(record.id) ?? '',
    )}
    <p class="actions"><a class="button primary" href="${listPath}">All keys</a></p>`
  return page(frame, { title, section: 'keys', main })
}
