import { describe, expect, it } from 'vitest'
import { narrowReload, neverReloads, type PrepareReload, reloadable } from '../../src/config/reloadable.ts'

interface Settings {
  readonly token: string
}

function createReloads() {
  const prepared: PrepareReload<Settings>[] = []
  return {
    onReload: (prepare: PrepareReload<Settings>) => void prepared.push(prepare),
    change: (next: Settings) => {
      const commits = prepared.map(prepare => prepare(next))
      for (const commit of commits) commit()
    },
  }
}

const strict = ({ token }: Settings) => {
  if (token === '') throw new Error('token: is empty')
  return `Bearer ${token}`
}

describe('a value made from settings', () => {
  it('is made from the current settings, and replaced when they change', () => {
    const { onReload, change } = createReloads()
    const header = reloadable({ token: 'a' }, onReload, strict)
    expect(header.value).toBe('Bearer a')
    change({ token: 'b' })
    expect(header.value).toBe('Bearer b')
  })

  it('stays, like all others, if one of them cannot use the new settings', () => {
    const { onReload, change } = createReloads()
    const length = reloadable({ token: 'a' }, onReload, ({ token }) => token.length)
    const header = reloadable({ token: 'a' }, onReload, strict)
    expect(() => change({ token: '' })).toThrow('token: is empty')
    expect([length.value, header.value]).toEqual([1, 'Bearer a'])
  })

  it('can depend on a part of the settings', () => {
    const { onReload, change } = createReloads()
    const own = narrowReload(onReload, ({ token }) => token)
    const upper = reloadable('a', own, token => token.toUpperCase())
    change({ token: 'b' })
    expect(upper.value).toBe('B')
  })

  it('never changes without reloads', () => {
    expect(reloadable({ token: 'a' }, neverReloads, strict).value).toBe('Bearer a')
  })
})
