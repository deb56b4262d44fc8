import type { FastifyInstance, FastifyReply } from 'fastify'
import { DEFAULT_OVERLAP_SECONDS, type RotateRequest } from '../../domain/key/key-life.ts'
import type { KeyState, StoredKey } from '../../domain/key/key-record.ts'
import {
  type CheckedForm,
  confirmForm,
  type FormFields,
  formTroubles,
  group,
  hidden,
  NO_PROBLEMS,
  option,
  type ShownForm,
  textField,
} from '../platform/html/form-parts.ts'
import { fact, type Html, hintHtml, html, lastUsed, nameHtml } from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import {
  DEFAULT_EXPIRY,
  decideExpiry,
  type ExpiryChoice,
  readExpiryChoice,
} from '../platform/html/name-and-expiry.ts'
import { problemPage } from '../platform/html/page-errors.ts'
import {
  CHANGE_FORMS,
  CHANGES,
  createFrame,
  FORM_NOTICES,
  newOnceToken,
  readFormContext,
  readFormFields,
  sendPage,
} from '../platform/html/page-request.ts'
import { keyPath, WORKSPACES } from '../platform/html/paths.ts'
import { lastUseWarning, type RecentUse, readRecentUse, recentUseText } from '../usage/index.ts'
import { keyExpiryField } from './key-form.ts'
import { type KeyPageParts, type KeyView, readKeyView, requireKey, scopeList } from './key-view.ts'
import { rotateKey } from './operations/key-operations.ts'
import { explainRejection, sendSecret } from './secret-page.ts'

const PATH = `${WORKSPACES}/:workspaceId/keys/:keyId/rotate`

export function rotateRoutes(scope: FastifyInstance, sources: KeyPageParts): void {
  scope.get(PATH, CHANGE_FORMS, async (request, reply) => {
    const key = await requireKey(request, sources.registry)
    return showForm(sources, reply, key, { form: NEW_ROTATE_FORM })
  })
  scope.post(PATH, CHANGES, (_, reply) => rotate(sources, reply))
}

async function rotate(sources: KeyPageParts, reply: FastifyReply): Promise<FastifyReply> {
  const { request } = reply
  const { registry } = sources
  const old = await requireKey(request, registry)
  const { id: keyId } = old.record
  const form = readRotateForm(readFormFields(request))
  const checked = checkRotateForm(form, registry.clock.wallMs())
  if (!checked.ok) return showForm(sources, reply, old, { form, problems: checked.problems })
  const context = readFormContext(request, ['rotate', { keyId }, form])
  if (context === null) return showForm(sources, reply, old, { form, notice: FORM_NOTICES.incomplete })
  const isConfirmed = checked.request.overlapSeconds !== 0 || readFormFields(request)['confirmed'] === 'yes'
  if (!isConfirmed) return confirmRevocation(sources, reply, old, form)
  const before = await readKeyView(old.record, registry)
  const result = await rotateKey(registry, keyId, checked.request, context)
  if (result.kind === 'done') return sendSecret(sources, reply, result, before)
  if (result.kind === 'not_active')
    return rejectRotation(sources, reply, { ...old.record, state: result.state })
  return showForm(sources, reply, old, { form, ...explainRejection(result) })
}

async function confirmRevocation(
  sources: KeyPageParts,
  reply: FastifyReply,
  { record }: StoredKey,
  form: RotateForm,
): Promise<FastifyReply> {
  const { registry } = sources
  const key = await readKeyView(record, registry)
  if (key.state !== 'active') return rejectRotation(sources, reply, { ...record, state: key.state })
  const frame = createFrame(reply, { workspaceId: record.workspaceId, clock: registry.clock })
  const onceToken = textField(readFormFields(reply.request), 'once')
  return sendPage(
    reply,
    rotateNowPage(frame, { key, recent: await readRecentUse(sources, record), form, onceToken }),
  )
}

async function showForm(
  sources: KeyPageParts,
  reply: FastifyReply,
  { record }: StoredKey,
  { form, problems = NO_PROBLEMS, notice = null }: ShownForm<RotateForm>,
): Promise<FastifyReply> {
  const { registry } = sources
  const key = await readKeyView(record, registry)
  if (key.state !== 'active') return rejectRotation(sources, reply, { ...record, state: key.state })
  const frame = createFrame(reply, { workspaceId: record.workspaceId, clock: registry.clock })
  const onceToken = newOnceToken(registry.randomBytes)
  const recent = await readRecentUse(sources, record)
  const page = rotatePage(frame, { key, recent, form, problems, onceToken, notice })
  return sendPage(reply, page, reply.request.method === 'POST' ? 422 : 200)
}

const REASONS: Readonly<Record<KeyState, string>> = {
  active: 'Another change to this key came first. Try again.',
  retiring: 'It has already been rotated. Rotate the key that replaced it.',
  suspended: 'It is suspended. Resume the key first.',
  expired: 'It has expired. Issue a new key instead.',
  revoked: 'It was revoked. Issue a new key instead.',
}

function rejectRotation(
  { registry }: KeyPageParts,
  reply: FastifyReply,
  { workspaceId, state }: { readonly workspaceId: string; readonly state: KeyState },
): FastifyReply {
  const frame = createFrame(reply, { workspaceId, clock: registry.clock })
  const problem = { title: 'Key cannot be rotated', text: REASONS[state], requestId: null }
  return sendPage(reply, problemPage(frame, problem), 409)
}

/** How long the old key keeps working. */
const OVERLAPS: readonly {
  readonly seconds: number
  readonly label: string
  readonly hint: string
}[] = [
  {
    seconds: 0,
    label: 'No overlap: revoke it now',
    hint: 'For a leaked key. All gateways reject it within one second',
  },
  { seconds: 3600, label: '1 hour', hint: 'If you replace it everywhere at once' },
  { seconds: 86_400, label: '24 hours', hint: 'Enough for a deployment and daily jobs' },
  { seconds: 7 * 86_400, label: '7 days', hint: 'If other teams have to replace it too' },
  { seconds: 30 * 86_400, label: '30 days', hint: 'The maximum' },
]

interface RotateForm extends ExpiryChoice {
  readonly overlap: string
}

export const NEW_ROTATE_FORM: RotateForm = { overlap: String(DEFAULT_OVERLAP_SECONDS), ...DEFAULT_EXPIRY }

export function readRotateForm(fields: FormFields): RotateForm {
  return { overlap: textField(fields, 'overlap'), ...readExpiryChoice(fields) }
}

/** Reports all problems at once. The registry validates again. */
export function checkRotateForm(form: RotateForm, nowMs: number): CheckedForm<RotateRequest> {
  const overlap = OVERLAPS.find(({ seconds }) => String(seconds) === form.overlap)
  const expiry = decideExpiry(form, nowMs)
  if (overlap !== undefined && expiry.ok) {
    return { ok: true, request: { overlapSeconds: overlap.seconds, ...expiry.expiry } }
  }
  const problems = new Map<string, string>()
  if (overlap === undefined) problems.set('overlap', 'Choose how long the old key keeps working')
  if (!expiry.ok) for (const [field, text] of expiry.problems) problems.set(field, text)
  return { ok: false, problems }
}

interface RotateView extends Required<ShownForm<RotateForm>> {
  readonly key: KeyView
  /** Null if it is not known. */
  readonly recent: RecentUse | null
  readonly onceToken: string
}

/** Asks before a rotation that revokes the old key at once, as before any revocation. */
function rotateNowPage(
  frame: Frame,
  { key, recent, form, onceToken }: Omit<RotateView, 'problems' | 'notice'>,
): Html {
  const { record } = key
  const title = 'Rotate and revoke'
  const { overlap, expiry, date } = form
  const main = html`<p class="back"><a href="${keyPath(record.workspaceId, record.id)}">${nameHtml(record)}</a></p>
    <h1>${title}</h1>
    <p class="lead">${nameHtml(record)}, ${hintHtml(record)}. Issues a new key and revokes this one. All gateways reject the old key within one second. This cannot be undone.</p>
    <div class="card">${confirmForm(frame, {
      action: keyPath(record.workspaceId, record.id, 'rotate'),
      about: lastUseWarning(key, recent, frame.nowMs),
      button: 'Rotate and revoke now',
      keepPath: keyPath(record.workspaceId, record.id),
      fields: { once: onceToken, overlap, expiry, date, confirmed: 'yes' },
    })}</div>`
  return page(frame, { title, section: 'keys', main })
}

function rotatePage(frame: Frame, view: RotateView): Html {
  const { key, recent, form, problems, onceToken } = view
  const { record } = key
  const back = keyPath(record.workspaceId, record.id)
  const overlap = OVERLAPS.map(({ seconds, label, hint }) =>
    option({
      type: 'radio',
      name: 'overlap',
      value: String(seconds),
      checked: form.overlap === String(seconds),
      label,
      hint,
    }),
  )
  const main = html`<p class="back"><a href="${back}">${nameHtml(record)}</a></p>
    <h1>Rotate key</h1>
    <p class="lead">Issues a new key with the same name and scopes. The old key, ${hintHtml(record)}, keeps working for as long as you choose.</p>
    ${formTroubles(view)}
    <form class="card" method="post" action="${keyPath(record.workspaceId, record.id, 'rotate')}" novalidate>
      ${hidden({ _csrf: frame.csrfToken, once: onceToken })}
      <dl class="facts">
        ${fact('Scopes', scopeList(record))}
        ${fact('Last used', html`${lastUsed(key, frame.nowMs)}${recent === null ? null : html`<br>${recentUseText(recent, frame.nowMs)}`}`)}
      </dl>
      ${group({ name: 'overlap', label: 'The old key keeps working for', hint: 'You can finish earlier, once no client uses it any more', problems }, overlap)}
      ${keyExpiryField('Expiry of the new key', form, problems, frame.nowMs)}
      <div class="actions"><button class="primary">Rotate key</button> <a href="${back}">Cancel</a></div>
    </form>`
  return page(frame, { title: 'Rotate', section: 'keys', main, isWrong: problems.size > 0 })
}
