import type { FastifyInstance, FastifyReply } from 'fastify'
import { parseInstant } from '../../../domain/form/instant.ts'
import { isKeyId } from '../../../domain/id-form.ts'
import { FILE_FORMATS, type FileFormat } from '../http/send-file.ts'
import { type Problems, textInput } from './form-parts.ts'
import { type Html, html, type Piece } from './html.ts'
import { ADMINISTRATION, requireWorkspace, SHOWS } from './page-request.ts'
import { filePath } from './paths.ts'

/** A list that can be filtered. @param workspaceId null: of all workspaces */
interface FilteredList {
  /** Its path in a workspace, and that for administrators. */
  readonly own: string
  readonly all: string
  show(reply: FastifyReply, workspaceId: string | null): Promise<FastifyReply>
  sendFile(reply: FastifyReply, workspaceId: string | null, format: FileFormat): FastifyReply
}

/** The pages of a list, of a workspace and of all, each also as files. */
export function filteredListRoutes(scope: FastifyInstance, { own, all, show, sendFile }: FilteredList): void {
  const lists = [
    { path: own, options: SHOWS, find: requireWorkspace },
    { path: all, options: ADMINISTRATION, find: () => null },
  ]
  for (const { path, options, find } of lists) {
    scope.get(path, options, (request, reply) => show(reply, find(request)))
    for (const format of FILE_FORMATS) {
      scope.get(`${path}/entries.${format}`, options, async (request, reply) =>
        sendFile(reply, find(request), format),
      )
    }
  }
}

/** Conditions on what a list shows, as they stand in the address; empty for none. */
type Conditions = Readonly<Record<string, string>>

/** Of the address; an empty field is left out. */
export function filterQuery(form: Conditions): Conditions {
  return Object.fromEntries(Object.entries(form).filter(([, value]) => value !== ''))
}

/** @param problems gets what is wrong */
export function checkKeyId(keyId: string, problems: Map<string, string>): void {
  if (keyId === '' || isKeyId(keyId)) return
  problems.set('keyId', 'Enter the id of a key: “key_” and 26 characters, as its page shows it')
}

/** In ms since the epoch, from the first inclusive to the last exclusive; undefined where there is no bound. */
interface TimeSpan {
  readonly fromMs: number | undefined
  readonly toMs: number | undefined
}

/** @param problems gets what is wrong */
export function checkSpan(
  { from, to }: { readonly from: string; readonly to: string },
  problems: Map<string, string>,
): TimeSpan {
  const [fromMs, toMs] = [readTime(from), readTime(to)]
  if (fromMs === null) problems.set('from', TIME_EXPECTED)
  if (toMs === null) problems.set('to', TIME_EXPECTED)
  else if (toMs !== undefined && fromMs !== null && fromMs !== undefined && toMs <= fromMs) {
    problems.set('to', 'Enter a time after the first one')
  }
  return { fromMs: fromMs ?? undefined, toMs: toMs ?? undefined }
}

const TIME_EXPECTED = 'Enter a day and time in UTC, such as 2027-02-18T09:00'

/** @returns undefined for none; null for what is no time */
function readTime(text: string): number | undefined | null {
  if (text === '') return undefined
  // Browsers leave the seconds out where they are zero.
  return parseInstant(`${text}${text.length === 'yyyy-mm-ddThh:mm'.length ? ':00' : ''}Z`)
}

/** @param attributes such as `maxlength` */
export function searchInput(
  { name, label }: { readonly name: string; readonly label: string },
  form: Conditions,
  problems: Problems,
  attributes: Html,
): Html {
  const field = { name, label, hint: null, problems }
  return textInput(
    field,
    form[name] ?? '',
    html`type="search" autocapitalize="off" spellcheck="false" ${attributes}`,
  )
}

export function keyIdInput(form: Conditions, problems: Problems): Html {
  const field = { name: 'keyId', label: 'Key id' }
  return searchInput(field, form, problems, html`maxlength="100" placeholder="key_…"`)
}

/**
 * What a narrow page folds away.
 * @param others fields by their names, before those of time
 */
export function foldedFilters(
  others: Readonly<Record<string, Html>>,
  form: Conditions,
  problems: Problems,
): Html {
  const time = (name: 'from' | 'to', label: string) =>
    textInput({ name, label, hint: null, problems }, form[name] ?? '', html`type="datetime-local"`)
  const chosen = [...Object.keys(others), 'from', 'to'].filter(name => (form[name] ?? '') !== '').length
  return html`<details class="fold"${problems.size > 0 ? html` open` : null}><summary>Filters${chosen === 0 ? null : html` <span class="count">${chosen}</span>`}</summary><div>
    ${Object.values(others)}
    ${time('from', 'From (UTC)')}
    ${time('to', 'Before (UTC)')}
    </div></details>`
}

/**
 * Leads to the list without conditions, and to files of what these select.
 * @param items what the list holds: `entries`
 * @param path of the list without conditions
 */
export function downloads(form: Conditions, items: string, path: string): Html {
  const query = filterQuery(form)
  const isFiltered = Object.keys(query).length > 0
  const all: Piece = isFiltered ? html`<a href="${path}">Show all ${items}</a>. ` : null
  return html`<p class="small">${all}Download ${isFiltered ? 'what matches' : `all ${items}`}:
    <a href="${filePath(path, 'csv', query)}" download>CSV</a>, <a href="${filePath(path, 'ndjson', query)}" download>NDJSON</a></p>`
}
