import { beforeEach, describe, expect, test } from 'vitest'
import { BrowserDouble, unescaped } from '../../support/browser-double.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { startSignIn } from '../../support/signed-in.ts'

const MINUTE_MS = 60_000

/** A list with a form of filters and files to download, of one workspace and of all. */
export interface FilteredList {
  /** In the last part of the address of its pages. */
  readonly path: 'audit' | 'refusals'
  /** Where the admin API lists those about keys; the filter follows. */
  readonly call: string
  /** The list in its response. */
  readonly field: 'entries' | 'refusals'
  /** The link to the next page. */
  readonly older: string
  /** What the names of its files begin with. */
  readonly file: string
  /** Five fields, each with a value that is wrong. */
  readonly wrong: Readonly<Record<string, string>>
  /** Fields where a key may be pasted in place of an id. */
  readonly pasted: readonly string[]
  /** What stands for each line on a page. */
  readonly shown: (text: string) => readonly unknown[]
  /** Adds a line about a key. */
  readonly addLine: (world: ListWorld, keyId: string) => Promise<void>
  /** Whether issuing a key adds a line about it. */
  readonly listsIssuing: boolean
}

export type ListWorld = Awaited<ReturnType<typeof startFilteredList>>

/** A console with administrators, Ada, who may see two workspaces, and what tests of a list ask it. */
export async function startFilteredList({ path, shown }: Pick<FilteredList, 'path' | 'shown'>) {
  const clock = new ManualClock()
  const oidc = { administratorClaim: 'roles', administratorValue: 'admin' }
  const world = await startSignIn({
    parts: { clock },
    signIn: { oidc },
    workspaceWebhooks: { enabled: true },
  })
  const ada = await world.signedIn({ sub: 'ada', name: 'Ada', workspaces: ['ws_1', 'ws_2'] })
  const page = `/workspaces/ws_1/${path}`
  const filtered = (query: Readonly<Record<string, string>>) => `${page}?${new URLSearchParams(query)}`
  return {
    ...{ ...world, world, clock, ada, page, filtered },
    root: () => world.signedIn({ sub: 'root', name: 'Root', workspaces: [], roles: ['admin'] }),
    /** Issues a key, a minute after what was before. */
    async issue(name: string, workspaceId = 'ws_1'): Promise<string> {
      clock.advance(MINUTE_MS)
      const key = { name, scopes: ['files:read'] }
      return (await world.send('POST', `/admin/v1/workspaces/${workspaceId}/keys`, key)).body.key.id
    },
    /** The lines of the page with this filter. */
    linesOf: async (query: Readonly<Record<string, string>>) =>
      shown((await ada.browser.visit(filtered(query))).text),
    download: (format: string, query: Readonly<Record<string, string>> = {}) =>
      ada.browser.send('GET', `${page}/entries.${format}?${new URLSearchParams(query)}`),
  }
}

/** As the field of a form has it. */
export const minuteOf = (ms: number) => new Date(ms).toISOString().slice(0, 16)

export function describeFilteredList(list: FilteredList): void {
  describe(`the pages and files of ${list.path}`, () => {
    const { shown } = list
    let world: ListWorld
    beforeEach(async () => {
      world = await startFilteredList(list)
    })

    /** A key with one line about it. */
    const keyWithLine = async (name: string, workspaceId?: string) => {
      const id = await world.issue(name, workspaceId)
      if (!list.listsIssuing) await list.addLine(world, id)
      return id
    }

    test('keep the filter of the address in the form, on other pages and in files', async () => {
      const { ada, page, filtered } = world
      const id = await keyWithLine('kept')
      const other = await keyWithLine('other')
      for (let count = 1; count < 53; count++) await list.addLine(world, id)
      const query = { keyId: id, from: '2026-01-01T00:00' }
      const first = await ada.browser.visit(filtered(query))
      expect(first.text).toContain(`value="${id}"`)
      expect(first.text).toContain('value="2026-01-01T00:00"')
      expect(shown(first.text)).toHaveLength(50)
      const older = `${page}?keyId=${id}&from=2026-01-01T00%3A00&cursor=`
      expect(first.text).toContain(list.older)
      const last = await ada.browser.visit(BrowserDouble.linkIn(first, older))
      expect(shown(last.text)).toHaveLength(3)
      expect(last.text).not.toContain(list.older)
      expect(BrowserDouble.linkIn(last, `${page}?keyId=${id}&from=`)).toBe(filtered(query))
      const { text } = await ada.browser.visit(BrowserDouble.linkIn(first, `${page}/entries.csv?`))
      expect(text.split('\r\n')).toHaveLength(55)
      expect(text).not.toContain(other)
    })

    test('are linked from the page of a key with its own lines, and lead back to it', async () => {
      const { ada, page, filtered } = world
      const id = await keyWithLine('mine')
      await keyWithLine('other')
      const path = `/workspaces/ws_1/keys/${id}`
      const link = BrowserDouble.linkIn(await ada.browser.visit(path), `${page}?keyId=`)
      const own = await ada.browser.visit(link)
      expect(shown(own.text)).toHaveLength(1)
      expect(unescaped(own.text)).toContain(`<p class="back"><a href="${path}">`)
      const elsewhere = await keyWithLine('elsewhere', 'ws_2')
      const { text } = await ada.browser.visit(filtered({ keyId: elsewhere }))
      expect(text).not.toContain('class="back"')
    })

    test('name a filter that is wrong beside its field, find nothing and download nothing', async () => {
      const { ada, filtered, download } = world
      await keyWithLine('a key')
      const { status, text } = await ada.browser.visit(filtered(list.wrong))
      expect(status).toBe(422)
      expect(text).toContain('5 problems to fix')
      expect(shown(text)).toEqual([])
      const turned = { from: '2026-11-02T00:00', to: '2026-11-01T00:00:30' }
      expect((await ada.browser.visit(filtered(turned))).text).toContain('Enter a time after the first one')
      expect((await download('csv', list.wrong)).status).toBe(400)
    })

    test('hold nothing of another workspace, and do not exist for people who may not see their workspace', async () => {
      const { page, linesOf, download } = world
      const id = await keyWithLine('elsewhere', 'ws_2')
      expect(await linesOf({ keyId: id })).toEqual([])
      expect((await download('ndjson', { keyId: id })).text).toBe('')
      const eve = await world.signedIn({ sub: 'eve', name: 'Eve', workspaces: ['ws_3'] })
      for (const path of [page, `${page}/entries.csv`, `${page}/entries.ndjson`]) {
        expect((await eve.browser.visit(path)).status).toBe(404)
      }
      expect((await world.browser().visit(`${page}/entries.csv`)).url).toContain('/sign-in')
    })

    test('are downloaded as NDJSON, a line each as the admin API has it', async () => {
      const { ada, download } = world
      const id = await keyWithLine('in the file')
      for (let count = 0; count < 12; count++) await keyWithLine(`key ${count}`)
      const { body } = await ada.call('GET', `${list.call}?keyId=${id}`)
      const one = await download('ndjson', { keyId: id })
      expect(one.headers['content-type']).toBe('application/x-ndjson; charset=utf-8')
      expect(one.headers['content-disposition']).toBe(`attachment; filename="${list.file}-ws_1.ndjson"`)
      expect(one.text).toBe(`${JSON.stringify(body[list.field][0])}\n`)
      expect((await download('ndjson')).text.trim().split('\n')).toHaveLength(13)
    })

    test('lead to the page that finds keys where a key is pasted in place of an id, which is in no address', async () => {
      const { ada, filtered } = world
      for (const field of list.pasted) {
        const { url, way } = await ada.browser.visit(filtered({ [field]: `wsk_${'A'.repeat(54)}` }))
        expect(new URL(url).pathname).toBe('/find-key')
        expect(way.slice(1).join()).not.toContain('AAAA')
      }
    })

    test('are those of all workspaces for an administrator alone', async () => {
      const root = await world.root()
      const here = await keyWithLine('here')
      const there = await keyWithLine('there', 'ws_2')
      const path = `/${list.path}`
      for (const keyId of [here, there]) {
        expect(shown((await root.browser.visit(`${path}?keyId=${keyId}`)).text)).toHaveLength(1)
      }
      const csv = await root.browser.send('GET', `${path}/entries.csv?keyId=${here}`)
      expect(csv.headers['content-disposition']).toBe(`attachment; filename="${list.file}.csv"`)
      expect(csv.text).toContain(',ws_1,')
      expect(csv.text).not.toContain(',ws_2,')
      for (const forbidden of [path, `${path}/entries.csv`, `${path}/entries.ndjson`]) {
        expect([forbidden, (await world.ada.browser.visit(forbidden)).status]).toEqual([forbidden, 403])
      }
    })
  })
}
