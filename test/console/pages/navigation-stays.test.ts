import { expect, test } from 'vitest'
import { startSignIn } from '../../support/signed-in.ts'

const BROWSER = { accept: 'text/html' }
const NAVIGATION = 'aria-label="Workspace"'

async function started(workspaces: readonly string[]) {
  const world = await startSignIn()
  const ada = await world.signedIn({ sub: 'ada', name: 'Ada', workspaces: [...workspaces] })
  /** The workspace whose navigation a page has; null for none. */
  const navigationOf = async (path: string, headers = {}) => {
    const { text } = await ada.browser.send('GET', path, { ...BROWSER, ...headers })
    return text.includes(NAVIGATION) ? /\/workspaces\/(\w+)\/audit"/.exec(text)?.[1] : null
  }
  return { ...world, ada, navigationOf }
}

const cameFrom = (path: string) => ({ referer: `https://console.test${path}` })

test('the navigation of a workspace stays on the page that finds a key, and on its answers', async () => {
  const { ada, navigationOf } = await started(['ws_1', 'ws_2'])
  const { text } = await ada.browser.visit('/workspaces/ws_2/keys')
  expect(text).toContain('href="/find-key?workspace=ws_2"')
  expect(await navigationOf('/find-key?workspace=ws_2')).toBe('ws_2')
  // As the script does with a key that was pasted into a search.
  expect(await navigationOf('/find-key', cameFrom('/workspaces/ws_2/keys?q=x'))).toBe('ws_2')
  for (const [fields, answer] of [
    [{ key: '' }, 'Paste the whole key'],
    [{ key: `wsk_${'A'.repeat(54)}` }, 'No such key'],
  ] as const) {
    const sent = await ada.browser.post('/find-key?workspace=ws_2', {
      _csrf: ada.csrf,
      digest: '',
      ...fields,
    })
    expect(sent.text).toContain(answer)
    expect(sent.text).toContain('action="/find-key?workspace=ws_2"'.slice(answer === 'No such key' ? 8 : 0))
    expect(sent.text).toContain('/workspaces/ws_2/audit"')
  }
})

test('the navigation of a workspace stays on the page of an error', async () => {
  const { navigationOf } = await started(['ws_1', 'ws_2'])
  expect(await navigationOf('/workspaces/ws_1/keys/key_01ARZ3NDEKTSV4RRFFQ69G5FAV')).toBe('ws_1')
  expect(await navigationOf('/workspaces/ws_1/nothing')).toBe('ws_1')
  expect(await navigationOf('/nothing', cameFrom('/workspaces/ws_2/usage'))).toBe('ws_2')
})

test('who has one workspace has its navigation on each page without one; who has several has none without a hint', async () => {
  const { navigationOf } = await started(['ws_1'])
  for (const path of ['/find-key', '/nothing', '/workspaces/ws_9/keys'])
    expect(await navigationOf(path)).toBe('ws_1')
  const several = await started(['ws_1', 'ws_2'])
  for (const path of [
    '/find-key',
    '/nothing',
    '/workspaces/ws_9/keys',
    '/find-key?workspace=ws_9',
    '/find-key?workspace=..',
  ]) {
    expect(await several.navigationOf(path)).toBeNull()
  }
  expect(await several.navigationOf('/nothing', cameFrom('/workspaces/ws_9/keys'))).toBeNull()
})
