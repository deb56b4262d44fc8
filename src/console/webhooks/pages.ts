import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../domain/clock.ts'
import { isId } from '../../domain/id-form.ts'
import type { KeyRecord, KeysById } from '../../domain/key/key-record.ts'
import {
  confirmForm,
  errorSummary,
  hidden,
  NO_PROBLEMS,
  type Problems,
  textField,
  textInput,
} from '../platform/html/form-parts.ts'
import {
  ago,
  cell,
  fact,
  type Html,
  hintHtml,
  html,
  instant,
  instantText,
  keyLink,
  type ListPlace,
  type Piece,
  pageLinks,
  secretCard,
} from '../platform/html/html.ts'
import { type Frame, page } from '../platform/html/layout.ts'
import {
  CHANGE_FORMS,
  CHANGES,
  createFrame,
  notFound,
  readCursor,
  readFormFields,
  readQuery,
  requireWorkspace,
  SHOWS,
  sendPage,
} from '../platform/html/page-request.ts'
import {
  deliveriesPath,
  olderDeliveriesPath,
  testedPath,
  WORKSPACES,
  webhookPath,
} from '../platform/html/paths.ts'
import { describeCaller, readParameter } from '../platform/http/request-context.ts'
import { deliveryState } from './api.ts'
import type { DeliveryLog } from './dispatcher.ts'
import type { WebhookEventType } from './events.ts'
import type { Delivery } from './rows.ts'
import {
  MAX_URL_LENGTH,
  type WorkspaceWebhook,
  type WorkspaceWebhooks,
  webhookOrigin,
} from './workspace-webhooks.ts'

const DELIVERIES = `${WORKSPACES}/:workspaceId/deliveries`
const OWN = `${WORKSPACES}/:workspaceId/webhook`
const OWN_TITLE = 'Webhook of this workspace'
const PAGE_SIZE = 50

interface WebhookPageParts {
  readonly clock: Clock
  readonly findKeys: (ids: readonly string[]) => Promise<KeysById>
  /** To the operator's webhook; null if none is configured. */
  readonly deliveries: DeliveryLog | null
  /** Null if workspaces may not have webhooks. */
  readonly workspaceWebhooks: WorkspaceWebhooks | null
}

/** Deliveries to the operator's webhook, and the workspace's own webhook with its deliveries. */
export function webhookPages(scope: FastifyInstance, parts: WebhookPageParts): void {
  scope.get(DELIVERIES, SHOWS, (_, reply) => showDeliveries(parts, reply))
  deliveryForms(scope, DELIVERIES, deliveriesPath, parts.deliveries)
  scope.get(OWN, SHOWS, (_, reply) => showWebhook(parts, reply, { url: '', problems: NO_PROBLEMS }))
  deliveryForms(scope, OWN, webhookPath, parts.workspaceWebhooks?.deliveries ?? null)
  scope.post(OWN, CHANGES, (request, reply) => setWebhook(parts, request, reply))
  const back = async (request: FastifyRequest, reply: FastifyReply) =>
    reply.redirect(webhookPath(requireWorkspace(request)), 303)
  scope.get(`${OWN}/remove`, CHANGE_FORMS, async (request, reply) => {
    const { webhooks, workspaceId } = open(parts, request)
    const webhook = await webhooks.find(workspaceId)
    if (webhook === null) return back(request, reply)
    const frame = createFrame(reply, { workspaceId, clock: parts.clock })
    return sendPage(reply, removePage(frame, webhookPath(workspaceId), webhook))
  })
  scope.post(`${OWN}/remove`, CHANGES, async (request, reply) => {
    const { webhooks, workspaceId } = open(parts, request)
    await webhooks.remove(workspaceId, describeCaller(request))
    return back(request, reply)
  })
}

/** The forms of a list of deliveries: to send a test, and to send an event again. */
function deliveryForms(
  scope: FastifyInstance,
  path: string,
  pagePath: (workspaceId: string) => string,
  log: DeliveryLog | null,
): void {
  const back = async (request: FastifyRequest, reply: FastifyReply) =>
    reply.redirect(pagePath(requireWorkspace(request)), 303)
  // Where a form leads whose session has expired.
  for (const form of ['test', ':eventId/again']) scope.get(`${path}/${form}`, SHOWS, back)
  scope.post(`${path}/test`, CHANGES, async (request, reply) => {
    const workspaceId = requireWorkspace(request)
    if (log === null) throw notFound()
    const isSent = await log.sendTest(workspaceId)
    return reply.redirect(testedPath(pagePath(workspaceId), isSent ? 'sent' : 'repeated'), 303)
  })
  scope.post(`${path}/:eventId/again`, CHANGES, async (request, reply) => {
    const workspaceId = requireWorkspace(request)
    const id = readParameter(request, 'eventId')
    if (log === null || !isId('msg', id)) throw notFound()
    await log.sendAgain({ workspaceId, id })
    return back(request, reply)
  })
}

async function showDeliveries(parts: WebhookPageParts, reply: FastifyReply): Promise<FastifyReply> {
  const { clock, deliveries, workspaceWebhooks } = parts
  const workspaceId = requireWorkspace(reply.request)
  const frame = createFrame(reply, { workspaceId, clock })
  const own = workspaceWebhooks === null ? null : webhookPath(workspaceId)
  // The menu leads here, and this console has the workspace's webhooks alone.
  if (deliveries === null) return own === null ? sendPage(reply, noWebhookPage(frame)) : reply.redirect(own)
  const view = await readDeliveriesView(parts, deliveries, reply.request, deliveriesPath(workspaceId))
  return sendPage(reply, deliveriesPage(frame, view, own))
}

async function showWebhook(
  parts: WebhookPageParts,
  reply: FastifyReply,
  form: { readonly url: string; readonly problems: Problems },
): Promise<FastifyReply> {
  const { webhooks, workspaceId } = open(parts, reply.request)
  const view = await readDeliveriesView(parts, webhooks.deliveries, reply.request, webhookPath(workspaceId))
  const webhook = await webhooks.find(workspaceId)
  const frame = createFrame(reply, { workspaceId, clock: parts.clock })
  const status = form.problems.size > 0 ? 422 : 200
  const { allowHttp } = webhooks
  return sendPage(reply, webhookPage(frame, { ...view, ...form, webhook, allowHttp }), status)
}

async function setWebhook(parts: WebhookPageParts, request: FastifyRequest, reply: FastifyReply) {
  const { webhooks, workspaceId } = open(parts, request)
  const url = textField(readFormFields(request), 'url').trim()
  const result = await webhooks.set(workspaceId, url, describeCaller(request))
  if (!result.ok) {
    const problems = new Map([['url', `This must be ${result.expected}`]])
    return showWebhook(parts, reply, { url, problems })
  }
  const frame = createFrame(reply, { workspaceId, clock: parts.clock })
  return sendPage(reply, webhookSecretPage(frame, webhookPath(workspaceId), result.secret))
}

/** @throws if the person may not see the workspace, or workspaces have no webhooks */
function open(
  { workspaceWebhooks }: WebhookPageParts,
  request: FastifyRequest,
): { readonly webhooks: WorkspaceWebhooks; readonly workspaceId: string } {
  const workspaceId = requireWorkspace(request)
  if (workspaceWebhooks === null) throw notFound()
  return { webhooks: workspaceWebhooks, workspaceId }
}

async function readDeliveriesView(
  { findKeys }: WebhookPageParts,
  log: DeliveryLog,
  request: FastifyRequest,
  path: string,
): Promise<DeliveriesView> {
  const cursor = readCursor(request, 'msg')
  const page = { workspaceId: requireWorkspace(request), limit: PAGE_SIZE, afterId: cursor }
  const { deliveries, nextAfterId } = await log.list(page)
  const keys = await findKeys(deliveries.map(({ keyId }) => keyId))
  const test = textField(readQuery(request), 'test')
  return { path, deliveries, keys, nextCursor: nextAfterId, isFirstPage: cursor === null, test }
}

interface DeliveriesView extends ListPlace {
  /** Path of the list. */
  readonly path: string
  readonly deliveries: readonly Delivery[]
  /** Those that the events are about, by id. */
  readonly keys: KeysById
  /** What became of the button to send a test, if it leads here. */
  readonly test: string
}

const TYPES = {
  'key.issued': 'Key issued',
  'key.rotated': 'Key rotated',
  'key.revoked': 'Key revoked',
  'key.suspended': 'Key suspended',
  'key.resumed': 'Key resumed',
  'key.edited': 'Key edited',
  'key.imported': 'Key imported',
  'key.reported': 'Key reported as leaked',
  'key.expiring': 'Key about to expire',
  'key.expired': 'Key expired',
  'limit.approaching': 'Limit nearly used up',
  'limit.reached': 'Limit used up',
  test: 'Test',
} satisfies Readonly<Record<WebhookEventType, string>>
const LABELS: ReadonlyMap<string, string> = new Map(Object.entries(TYPES))

const STATES = {
  delivered: { label: 'Delivered', badge: 'active' },
  waiting: { label: 'Waiting', badge: 'retiring' },
  given_up: { label: 'Given up', badge: 'revoked' },
} as const

/** @param own link to the workspace's own webhook; null if there is none to set */
function deliveriesPage(frame: Frame, view: DeliveriesView, own: string | null): Html {
  const main = html`<div class="title"><h1>Webhook deliveries</h1>${frame.mayChange ? testForm(frame, view) : null}</div>
    <p class="lead">Events about keys of this workspace, sent to the webhook in the last 30 days.
      Failed deliveries are retried for about 28 hours.</p>
    ${ownLink(own)}
    ${testNotice(view)}
    ${deliveryList(frame, view)}`
  return page(frame, { title: 'Webhook deliveries', section: 'deliveries', main })
}

/** Deliveries with their pages. */
function deliveryList(frame: Frame, view: DeliveriesView): Html {
  const { deliveries } = view
  // Other events may wait for hours.
  const isWatched =
    view.test === 'sent' && deliveries.some(({ type, attempts }) => type === 'test' && attempts === 0)
  return html`<div class="stack" id="deliveries"${isWatched ? html` data-refreshes="3"` : null}>
    ${deliveries.length === 0 ? html`<p class="empty">No events yet.</p>` : table(frame, view)}
    ${pageLinks(view, cursor => olderDeliveriesPath(view.path, cursor), { first: 'Newest deliveries', next: 'Older deliveries' })}</div>`
}

function ownLink(own: string | null): Html | null {
  return own === null ? null : html`<p><a href="${own}">${OWN_TITLE}</a></p>`
}

function noWebhookPage(frame: Frame): Html {
  const main = html`<h1>Webhook deliveries</h1>
    <div class="empty"><h2>No webhook</h2>
      <p>A webhook tells another system when a key is issued, changed or about to expire. The operator of this console configures it with <code>console.webhook.url</code>.</p></div>`
  return page(frame, { title: 'Webhook deliveries', section: 'deliveries', main })
}

/** Of several clicks within a minute, one sends an event. */
function testNotice({ test }: Pick<DeliveriesView, 'test'>): Html | null {
  if (test === 'sent')
    return html`<p class="notice" role="status">A test is being sent. Its response appears in the list below; without JavaScript, reload this page.</p>`
  if (test !== 'repeated') return null
  return html`<p class="notice warn" role="status">No second test was sent: one was sent in this minute. It is in the list below. Try again after the next full minute.</p>`
}

function testForm({ csrfToken }: Frame, { path }: Pick<DeliveriesView, 'path'>): Html {
  return html`<form method="post" action="${path}/test">${hidden({ _csrf: csrfToken })}<button>Send a test</button></form>`
}

function table(frame: Frame, { path, deliveries, keys }: DeliveriesView): Html {
  return html`<table class="stacks">
    <caption class="hidden">Webhook events, newest first</caption>
    <thead><tr><th scope="col">Time</th><th scope="col">Event</th><th scope="col">Key</th><th scope="col">State</th><th scope="col">Last response</th>${frame.mayChange ? html`<th scope="col"><span class="hidden">Action</span></th>` : null}</tr></thead>
    <tbody>${deliveries.map(delivery => row(frame, path, delivery, keys.get(delivery.keyId)?.record ?? null))}</tbody>
  </table>`
}

function row(frame: Frame, path: string, delivery: Delivery, record: KeyRecord | null): Html {
  const { nowMs } = frame
  const { atMs, type } = delivery
  const { label, badge } = STATES[deliveryState(delivery)]
  return html`<tr>
    <th scope="row">${instant(atMs)} <span class="muted small">${ago(atMs, nowMs)}</span></th>
    ${cell('Event', LABELS.get(type) ?? type)}
    ${cell('Key', html`<span class="breaks">${record === null ? '–' : html`${keyLink({ record })} ${hintHtml(record)}`}</span>`)}
    ${cell('State', html`<span class="badge ${badge}">${label}</span>`)}
    ${cell('Last response', html`<span class="breaks">${lastResponse(delivery, nowMs)}</span>`)}
    ${frame.mayChange ? html`<td>${againForm(frame, path, delivery)}</td>` : null}
  </tr>`
}

function againForm({ csrfToken }: Frame, path: string, delivery: Delivery): Html | null {
  if (deliveryState(delivery) === 'waiting') return null
  const action = `${path}/${delivery.id}/again`
  return html`<form method="post" action="${action}">${hidden({ _csrf: csrfToken })}<button class="small">Deliver again<span class="hidden"> the event of ${instantText(delivery.atMs)}</span></button></form>`
}

function lastResponse(delivery: Delivery, nowMs: number): Piece {
  const { attempts, lastStatus, lastError, nextAttemptAtMs } = delivery
  if (attempts === 0) return lastError ?? 'Not sent yet'
  const count = attempts === 1 ? '1 attempt' : `${attempts} attempts`
  if (lastError === null) return `${lastStatus}, after ${count}`
  const next = nextAttemptAtMs === null ? null : html`; next attempt ${ago(nextAttemptAtMs, nowMs)}`
  return html`${lastError}, after ${count}${next}`
}

interface WebhookView extends DeliveriesView {
  readonly webhook: WorkspaceWebhook | null
  /** The address as it was entered. */
  readonly url: string
  readonly allowHttp: boolean
  readonly problems: Problems
}

/** The workspace's own webhook, with its deliveries. */
function webhookPage(frame: Frame, view: WebhookView): Html {
  const { webhook, problems } = view
  // Without a webhook no event can be delivered again.
  const mayDeliver = webhook !== null && frame.mayChange
  const main = html`<div class="title"><h1>${OWN_TITLE}</h1>${mayDeliver ? testForm(frame, view) : null}</div>
    <p class="lead">Receives events about keys of this workspace, signed with its own secret.</p>
    ${errorSummary(problems)}
    ${testNotice(view)}
    ${webhook === null ? html`<p class="empty">No webhook is set.</p>` : facts(frame, webhook)}
    ${frame.mayChange ? forms(frame, view) : null}
    <h2>Deliveries</h2>
    ${deliveryList({ ...frame, mayChange: mayDeliver }, view)}`
  return page(frame, { title: OWN_TITLE, section: 'deliveries', main, isWrong: problems.size > 0 })
}

/** A path may hold a secret of the receiver: who may not change the webhook sees the site alone. */
function facts({ mayChange, nowMs }: Frame, webhook: WorkspaceWebhook): Html {
  return html`<dl class="card facts">
    <div><dt>Address</dt><dd class="breaks">${mayChange ? webhook.url : webhookOrigin(webhook)}</dd></div>
    ${fact('Set', ago(webhook.createdAtMs, nowMs))}
  </dl>`
}

function forms({ csrfToken }: Frame, { path, webhook, url, problems, allowHttp }: WebhookView): Html {
  const protocols = allowHttp ? 'An https: or http: address' : 'An https: address'
  const hint = `${protocols} that this console can reach. Setting it makes a new secret, which the next page shows once`
  const remove = html`<p><a class="button danger" href="${path}/remove">Remove the webhook</a></p>`
  return html`<form class="card" method="post" action="${path}" novalidate>
      ${hidden({ _csrf: csrfToken })}
      ${textInput({ name: 'url', label: 'Address', hint, problems }, url, html`type="url" inputmode="url" maxlength="${MAX_URL_LENGTH}" required`)}
      <div class="actions"><button class="primary">Set address</button></div>
    </form>
    ${webhook === null ? null : remove}`
}

/** One click is not enough to lose a secret and the events that wait. */
function removePage(frame: Frame, path: string, webhook: WorkspaceWebhook): Html {
  const about = html`<p><strong>${webhookOrigin(webhook)}</strong> gets no more events. Those that still wait for it are given up, and its secret is deleted: setting the same address again makes a new one.</p>`
  const main = html`<p class="back"><a href="${path}">${OWN_TITLE}</a></p>
    <h1>Remove the webhook?</h1>
    <section class="card">${confirmForm(frame, { action: `${path}/remove`, about, button: 'Remove it', keepPath: path })}</section>`
  return page(frame, { title: 'Remove the webhook', section: 'deliveries', main })
}

function webhookSecretPage(frame: Frame, path: string, secret: string): Html {
  const advice = 'It signs every event. If you lose it, set the address again to get a new one.'
  const main = html`<h1>Webhook set</h1>
    ${secretCard(secret, { back: path, advice })}
    <p class="actions"><a class="button primary" href="${path}">I have saved it</a></p>`
  return page(frame, { title: 'Copy the secret', section: 'deliveries', main })
}
