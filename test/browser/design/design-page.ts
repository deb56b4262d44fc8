import { entryList, filterForm, readFilterForm } from '../../../src/console/audit/pages.ts'
import {
  BLANK_FORM,
  facts,
  nameInput,
  restrictionInputs,
  textInputs,
} from '../../../src/console/keys/key-form.ts'
import { keyTable, readKeyList } from '../../../src/console/keys/key-list.ts'
import { type KeyView, stateBadge } from '../../../src/console/keys/key-view.ts'
import { type ChangeProgress, changeSteps } from '../../../src/console/keys/operations/change-progress.ts'
import { stepDialog } from '../../../src/console/keys/step-pages.ts'
import { AUDIT_ACTIONS, isAuditAction } from '../../../src/console/platform/audit/entries.ts'
import { codeExampleList, codeExamples } from '../../../src/console/platform/html/code-examples.ts'
import {
  errorSummary,
  group,
  NO_PROBLEMS,
  option,
  select,
  textArea,
  textInput,
} from '../../../src/console/platform/html/form-parts.ts'
import {
  type Html,
  html,
  type Piece,
  pageLinks,
  secretCard,
} from '../../../src/console/platform/html/html.ts'
import { type Frame, page } from '../../../src/console/platform/html/layout.ts'
import { DEFAULT_EXPIRY, expiryField } from '../../../src/console/platform/html/name-and-expiry.ts'
import { chartSpan } from '../../../src/console/usage/chart-range.ts'
import { limitsCard } from '../../../src/console/usage/pages.ts'
import { usagePoints } from '../../../src/console/usage/read-usage.ts'
import { usagePart } from '../../../src/console/usage/usage-chart.ts'
import { KEY_STATES } from '../../../src/domain/key/key-record.ts'
import { recordOf } from '../../support/key-records.ts'

const NOW_MS = Date.parse('2026-11-21T09:30:00Z')
const HOUR_MS = 3_600_000
const MINUTE_MS = 60_000
const HERE = '/'

const FRAME: Frame = {
  personName: 'Ada Lovelace',
  workspaceId: 'ws_1',
  workspaceNames: { ws_1: 'Northwind' },
  mayChoose: true,
  mayChange: true,
  isAdministrator: true,
  leftOut: null,
  unusedClaims: [],
  sessionExpired: false,
  csrfToken: '',
  nowMs: NOW_MS,
}
const ACTIVE: KeyView = { record: recordOf(), state: 'active', lastUsedAtMs: NOW_MS - HOUR_MS }

/** Each control of the console in each of its states, made by the functions that make the pages. Served by no console. */
export function designPage(): string {
  const main = html`<div class="title"><h1>Design</h1><div class="actions">${buttons()} <button type="button">Button</button></div></div>
    <p class="lead">Each control of the console, as its pages have it.</p>
    ${notices()}${keyForm()}${rejectedForm()}${actionsCard()}${lists()}${charts()}${outcomes()}`
  return page(FRAME, { title: 'Design', section: null, main }).toString()
}

function card(title: string, content: Piece): Html {
  return html`<section class="card"><h2>${title}</h2>${content}</section>`
}

/** They have another look beside a title, in a form and in a search. */
function buttons(): Html {
  return html`<a class="button" href="${HERE}">Button</a> <a class="button primary" href="${HERE}">Primary</a> <a class="button danger" href="${HERE}">Danger</a>`
}

function notices(): Html {
  return html`<p class="notice">A notice</p><p class="notice warn">A warning. <a href="${HERE}">A link</a></p>
    ${errorSummary(new Map([['rejected-text', 'What is wrong with the field']]))}
    <div class="empty"><h2>Nothing yet</h2><p>What there will be.</p>${buttons()}</div>`
}

/** Every field of the forms: a type of input that the style sheet forgets is unlike the others. */
function keyForm(): Html {
  const scopes = ['files:read', 'workspace:read'].map(scope =>
    option({
      type: 'checkbox',
      name: 'scopes',
      value: scope,
      checked: scope === 'files:read',
      label: html`<code>${scope}</code>`,
      hint: 'What it grants',
    }),
  )
  const problems = NO_PROBLEMS
  const field = (name: string, label: string) => ({ name, label, hint: null, problems })
  return html`<form class="card" method="post" action="${HERE}">
    ${nameInput({ ...BLANK_FORM, name: 'build server' }, problems, 'The program that uses the key')}
    ${textInputs(BLANK_FORM, problems)}
    ${textInput(field('url', 'Address'), '', html`type="url" placeholder="https://example.com/"`)}
    ${textInput(field('password', 'Secret'), '', html`type="password"`)}
    ${textInput(field('number', 'Number'), '', html`type="number"`)}
    ${group({ name: 'scopes', label: 'Scopes', hint: 'A hint', problems }, scopes)}
    ${expiryField({ label: 'Expiry', hint: 'A hint', problems }, DEFAULT_EXPIRY, NOW_MS)}
    ${restrictionInputs({ ...BLANK_FORM, plan: 'free' }, problems, ['business', 'free'])}
    <div class="actions"><button>Button</button> <button class="primary">Primary</button> <button class="danger">Danger</button>
      <button class="small">Small</button> <a href="${HERE}">Cancel</a></div>
  </form>`
}

function rejectedForm(): Html {
  const problem = (name: string) => {
    const problems = new Map([[name, 'What is wrong']])
    return { name, label: 'Rejected', hint: 'A hint', problems }
  }
  const options = [{ value: '', label: 'None' }]
  const choice = option({ type: 'radio', name: 'rejected', value: 'one', checked: false, label: 'One' })
  return html`<form class="card" method="post" action="${HERE}">
    ${textInput(problem('rejected-text'), 'text', html`type="text"`)}
    ${textInput(problem('rejected-date'), '', html`type="date"`)}
    ${textInput(problem('rejected-url'), '', html`type="url"`)}
    ${textArea(problem('rejected-lines'), 'lines')}
    ${select({ ...problem('rejected-choice'), value: '', options })}
    ${group(problem('rejected-group'), choice)}
  </form>`
}

/** Outside of forms: copying, opening a dialog, and what the page of a key offers. */
function actionsCard(): Html {
  const dialog = html`<a class="button" href="${HERE}" data-opens="suspend-dialog">Open a dialog</a>`
  return html`${card('Buttons', html`<p class="actions">${buttons()} ${dialog}</p>${facts(ACTIVE, NOW_MS, 'Ada Lovelace')}`)}
    ${stepDialog(FRAME, { key: ACTIVE, step: 'suspend', recent: null })}
    ${secretCard(`wsk_${'A'.repeat(54)}`, { back: HERE, advice: 'What to know about it.' })}
    ${card('Examples', codeExampleList(codeExamples('https://api.example.com/api/v1/auth')))}`
}

/** Filters, tables and entries, with the badges of every state and action. */
function lists(): Html {
  const keys = KEY_STATES.map((state, index) => ({
    record: recordOf({ id: `key_${index}`, name: `a key, ${state}` }),
    ...{ state, lastUsedAtMs: null },
  }))
  const known = { scopes: [], plans: ['business'] }
  const list = readKeyList({}, known)
  const entries = AUDIT_ACTIONS.map(({ value }) => value)
    .filter(isAuditAction)
    .map(action => ({
      ...{ id: action, workspaceId: 'ws_1', atMs: NOW_MS, actor: 'person:ada', action, keyId: null },
      detail: { name: 'what it is about' },
    }))
  return html`${filterForm(null, readFilterForm({ action: 'key.issued' }), NO_PROBLEMS)}
    ${keyTable(FRAME, { workspaceId: 'ws_1', keys, successors: new Map(), list, cursor: '', plans: known.plans })}
    ${card('States', html`<p class="actions">${KEY_STATES.map(state => stateBadge({ state }))}</p>`)}
    ${entryList(entries, new Map(), NOW_MS)}
    ${pageLinks({ nextCursor: 'next', isFirstPage: false }, () => HERE)}`
}

function charts(): Html {
  const span = chartSpan({ name: '24h', from: '', to: '' }, NOW_MS)
  const counts = [
    { bucket: span.range.until - 2, route: 'files', code: 'ok', count: 90 },
    { bucket: span.range.until - 1, route: 'files', code: 'rate_limited', count: 20 },
  ]
  const policy = { name: 'minute', per: 'key', requests: 60, windowSeconds: 60 } as const
  const windows = [{ policy, remaining: 12, resetsAtMs: NOW_MS + MINUTE_MS }]
  return html`${card('Chart', usagePart({ span, points: usagePoints(span.range, counts), late: 0 }, { path: HERE, id: 'chart' }))}
    ${limitsCard({ plan: null, regions: [{ region: null, windows, unknown: null }] }, NOW_MS)}`
}

/** Progress of a change, with a step that is done and one that waits. */
function outcomes(): Html {
  const silent = [{ name: 'postern-gateway-1', lastSeenAtMs: NOW_MS }]
  const gateways = { known: 2, confirmed: 1, verifying: 0, silent }
  const progress: ChangeProgress = {
    announced: [{ region: 'default', announced: true }],
    committedAtMs: NOW_MS,
    announcedAtMs: NOW_MS + 4,
    gateways: { ...gateways, regions: [] },
  }
  return changeSteps(progress, null)
}
