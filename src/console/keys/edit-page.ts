import type { FastifyInstance, FastifyReply } from 'fastify'
import { CHOSEN_FIELDS } from '../../domain/key/key-fields.ts'
import type { EditRequest } from '../../domain/key/key-life.ts'
import { isFinal, type KeyRecord, type StoredKey } from '../../domain/key/key-record.ts'
import {
  type AuditChanges,
  type AuditEntry,
  type AuditValue,
  actionLabel,
  readChanges,
} from '../platform/audit/entries.ts'
import {
  type CheckedForm,
  describeRejectedField,
  errorSummary,
  type FormFields,
  hidden,
  NO_PROBLEMS,
  type Problems,
  type ShownForm,
  textField,
  textInput,
} from '../platform/html/form-parts.ts'
import {
  actorName,
  ago,
  type Html,
  hintHtml,
  html,
  instant,
  nameHtml,
  type Piece,
} from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import { dayText, findNameProblem, isoDay } from '../platform/html/name-and-expiry.ts'
import {
  CHANGE_FORMS,
  CHANGES,
  createFrame,
  notFound,
  readFormFields,
  sendPage,
} from '../platform/html/page-request.ts'
import { keyPath, WORKSPACES } from '../platform/html/paths.ts'
import { describeCaller } from '../platform/http/request-context.ts'
import {
  type ChosenForm,
  FIELD_LABELS,
  fillChosenForm,
  nameInput,
  readChosenForm,
  requestedFields,
  restrictionInputs,
  textInputs,
  valueText,
} from './key-form.ts'
import { type KeyPageParts, type KeyView, readActorName, readKeyView, requireKey } from './key-view.ts'
import { editKey } from './operations/key-operations.ts'
import { withPlanChoice } from './plan-choice.ts'
import { rejectFinal } from './step-pages.ts'

const PATH = `${WORKSPACES}/:workspaceId/keys/:keyId/edit`
const DAY_MS = 86_400_000
/** No form is older: a session ends before. */
const FORM_AGE_MS = DAY_MS
/** A chosen day ends at 23:59:59 UTC. */
const DAY_END_MS = DAY_MS - 1000
const MAX_CHANGES_SHOWN = 20
const VERSION = /^[1-9]\d{0,9}$/

export function editRoutes(scope: FastifyInstance, sources: KeyPageParts): void {
  scope.get(PATH, CHANGE_FORMS, async (request, reply) => {
    const key = await requireKey(request, sources.registry)
    return showForm(sources, reply, key, { form: startEditForm(key.record) })
  })
  scope.post(PATH, CHANGES, (_, reply) => edit(sources, reply))
}

async function edit(sources: KeyPageParts, reply: FastifyReply): Promise<FastifyReply> {
  const { request } = reply
  const { registry } = sources
  const key = await requireKey(request, registry)
  const { workspaceId, id } = key.record
  const form = readEditForm(readFormFields(request))
  const checked = checkEditForm(form, key.record, registry.clock.wallMs())
  if (!checked.ok) return showForm(sources, reply, key, { form, problems: checked.problems })
  const context = { caller: describeCaller(request), idempotency: null }
  const edit = { request: withPlanChoice(request, checked.request), versions: [form.version ?? 0] }
  const result = await editKey(registry, id, edit, context)
  switch (result.kind) {
    case 'done':
      return reply.redirect(keyPath(workspaceId, id), 303)
    case 'invalid':
      return showForm(sources, reply, key, { form, problems: describeRejectedField(result) })
    case 'other_version':
      return showConflict(sources, reply, form)
    case 'final':
      return rejectFinal(registry, reply, { workspaceId, state: result.state })
    default:
      throw notFound()
  }
}

async function showForm(
  sources: KeyPageParts,
  reply: FastifyReply,
  stored: StoredKey,
  { form, problems = NO_PROBLEMS }: ShownForm<EditForm>,
): Promise<FastifyReply> {
  const { registry } = sources
  const key = await readKeyView(stored.record, registry)
  const { state } = key
  if (isFinal(state)) return rejectFinal(registry, reply, { ...stored.record, state })
  // A form of another version is answered with what changed, also where it has problems.
  if (form.version !== key.record.version) return showConflict(sources, reply, form, problems)
  const frame = createFrame(reply, { workspaceId: key.record.workspaceId, clock: registry.clock })
  const page = editPage(frame, { key, form, problems, meanwhile: null, knownPlans: registry.knownPlans })
  return sendPage(reply, page, reply.request.method === 'POST' ? 422 : 200)
}

/** Another change came first: shows it beside the entries, which can be saved over it. */
async function showConflict(
  sources: KeyPageParts,
  reply: FastifyReply,
  form: EditForm,
  problems: Problems = NO_PROBLEMS,
): Promise<FastifyReply> {
  const { registry } = sources
  const { record } = await requireKey(reply.request, registry)
  const changes = Math.min(Math.max(1, record.version - (form.version ?? record.version)), MAX_CHANGES_SHOWN)
  const since = { sinceMs: registry.clock.wallMs() - FORM_AGE_MS, limit: changes }
  const meanwhile = await registry.history.listHistory(record, since)
  const frame = createFrame(reply, { workspaceId: record.workspaceId, clock: registry.clock })
  const key = await readKeyView(record, registry)
  const view = { key, problems, meanwhile, knownPlans: registry.knownPlans }
  return sendPage(reply, editPage(frame, { ...view, form: rebaseEditForm(form, record, meanwhile) }), 412)
}

/** The form as received. */
interface EditForm extends ChosenForm {
  /** An earlier last day, `2027-02-18`; empty to leave the expiry as it is. */
  readonly date: string
  /** Of the key that the person has seen; null if it is missing. */
  readonly version: number | null
}

function startEditForm(record: KeyRecord): EditForm {
  return { ...fillChosenForm(record), date: '', version: record.version }
}

export function readEditForm(fields: FormFields): EditForm {
  const version = textField(fields, 'version')
  return {
    ...readChosenForm(fields),
    date: textField(fields, 'date').trim(),
    version: VERSION.test(version) ? Number(version) : null,
  }
}

/**
 * A form of an earlier version, with the present value of each field that the person left as it was.
 * @param meanwhile changes since that version, newest first
 */
function rebaseEditForm(form: EditForm, record: KeyRecord, meanwhile: readonly AuditEntry[]): EditForm {
  const present = fillChosenForm(record)
  const rebased = { ...form }
  for (const field of CHOSEN_FIELDS) {
    const changes = meanwhile.map(entry => readChanges(entry)[field]).filter(change => change !== undefined)
    const first = changes.at(-1)
    if (first !== undefined && formText(first.old) === form[field]) rebased[field] = present[field]
  }
  return rebased
}

function formText(value: AuditValue): string {
  if (value === null) return ''
  return typeof value === 'object' ? value.join('\n') : String(value)
}

/** The registry checks texts and networks. */
export function checkEditForm(
  { date, version, ...chosen }: EditForm,
  key: Pick<KeyRecord, 'expiresAtMs'>,
  nowMs: number,
): CheckedForm<EditRequest> {
  const nameProblem = findNameProblem(chosen.name)
  const dateProblem = date === '' ? null : findDateProblem(date, earlierDays(key, nowMs))
  const problems = new Map<string, string>()
  if (nameProblem !== null) problems.set('name', nameProblem)
  if (dateProblem !== null) problems.set('date', dateProblem)
  if (problems.size > 0) return { ok: false, problems }
  const expiry = date === '' ? {} : { expiresAt: `${date}T23:59:59Z` }
  return { ok: true, request: { ...requestedFields(chosen), ...expiry } }
}

/** The days that can become a key's last one; null if there is none. */
function earlierDays(
  { expiresAtMs }: Pick<KeyRecord, 'expiresAtMs'>,
  nowMs: number,
): { readonly min: string; readonly max: string } | null {
  const min = isoDay(nowMs)
  const max = isoDay(expiresAtMs - DAY_END_MS)
  return min <= max ? { min, max } : null
}

function findDateProblem(date: string, days: ReturnType<typeof earlierDays>): string | null {
  if (days === null) return 'Clear this date: the key expires within a day'
  const { min, max } = days
  const isDay = /^\d{4}-\d\d-\d\d$/.test(date) && !Number.isNaN(Date.parse(date))
  if (isDay && date >= min && date <= max) return null
  return `Enter a day from ${dayText(min)} to ${dayText(max)}, such as ${max}, or none`
}

interface EditView {
  readonly knownPlans: readonly string[]
  /** As it is now. */
  readonly key: KeyView
  readonly form: EditForm
  readonly problems: Problems
  /** Changes since the person opened the form, newest first; null if the form may be saved as it is. */
  readonly meanwhile: readonly AuditEntry[] | null
}

function editPage(frame: Frame, view: EditView): Html {
  const { key, form, problems, meanwhile } = view
  const { record } = key
  const back = keyPath(record.workspaceId, record.id)
  const main = html`<p class="back"><a href="${back}">${nameHtml(record)}</a></p>
    <h1>Edit key</h1>
    <p class="lead">${nameHtml(record)}, ${hintHtml(record)}. The secret and the scopes stay as they are.</p>
    ${errorSummary(problems)}
    ${meanwhile === null ? null : conflict(meanwhile, frame.nowMs)}
    <form class="card" method="post" action="${keyPath(record.workspaceId, record.id, 'edit')}" novalidate>
      ${hidden({ _csrf: frame.csrfToken, version: String(record.version) })}
      ${nameInput(form, problems, 'The program that uses the key')}
      ${textInputs(form, problems)}
      ${earlierExpiryField(view, frame.nowMs)}
      ${restrictionInputs(form, problems, frame.isAdministrator ? view.knownPlans : null)}
      <div class="actions"><button class="primary">${meanwhile === null ? 'Save' : 'Save my entries'}</button> <a href="${back}">Cancel</a></div>
    </form>`
  const isWrong = problems.size > 0 || meanwhile !== null
  return page(frame, { title: 'Edit key', section: 'keys', main, isWrong })
}

/** An expiry can only become earlier. */
function earlierExpiryField({ key, form, problems }: EditView, nowMs: number): Html | null {
  const days = earlierDays(key.record, nowMs)
  if (days === null && !problems.has('date')) return null
  const hint = html`It expires ${instant(key.record.expiresAtMs)}. Enter a day to make it expire earlier, at the end of that day, UTC. This cannot be undone`
  const bounds = days === null ? null : html` min="${days.min}" max="${days.max}"`
  return textInput(
    { name: 'date', label: 'Earlier last day', hint, problems },
    form.date,
    html`type="date"${bounds}`,
  )
}

function conflict(meanwhile: readonly AuditEntry[], nowMs: number): Html {
  return html`<section class="notice warn" role="alert" tabindex="-1" autofocus aria-labelledby="conflict">
    <h2 id="conflict">This key was changed meanwhile</h2>
    <p>Nothing was saved. Fields that you did not change now hold the present values; saving replaces the others.</p>
    <ul>${meanwhile.map(entry => changeItem(entry, nowMs))}</ul>
  </section>`
}

/** A change with its time and the person who made it. */
function changeItem(entry: AuditEntry, nowMs: number): Html {
  const { action, actor, atMs } = entry
  return html`<li>${actionLabel(action)} by ${actorName(actor, readActorName(entry))} ${ago(atMs, nowMs)}${changedFields(readChanges(entry))}</li>`
}

function changedFields(changes: AuditChanges): Piece {
  const items = Object.entries(changes).map(([field, change]) =>
    field === 'expiresAt'
      ? html`<li>Expires: ${instant(Date.parse(String(change.old)))} became ${instant(Date.parse(String(change.new)))}</li>`
      : html`<li>${FIELD_LABELS[field] ?? field}: ${valueText(change.old)} became ${valueText(change.new)}</li>`,
  )
  return items.length === 0 ? null : html`<ul>${items}</ul>`
}
