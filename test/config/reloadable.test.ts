import { describe, expect, it } from 'vitest'
import { following, followingPart, type Prepare, unchanging } from '../../src/config/reloadable.ts'

interface Settings {
  readonly token: string
}

function announced() {
  const prepared: Prepare<Settings>[] = []
  return {
    follow: (prepare: Prepare<Settings>) => void prepared.push(prepare),
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

describe('what follows settings', () => {
  it('is made of those there are, and of new ones when they come', () => {
    const { follow, change } = announced()
    const header = following({ token: 'a' }, follow, strict)
    expect(header.value).toBe('Bearer a')
    change({ token: 'b' })
    expect(header.value).toBe('Bearer b')
  })

  it('stays as it is, and so does everybody else, where one cannot use the new ones', () => {
    const { follow, change } = announced()
    const length = following({ token: 'a' }, follow, ({ token }) => token.length)
    const header = following({ token: 'a' }, follow, strict)
    expect(() => change({ token: '' })).toThrow('token: is empty')
    expect([length.value, header.value]).toEqual([1, 'Bearer a'])
  })

  it('need know no more of them than its own part', () => {
    const { follow, change } = announced()
    const own = followingPart(follow, ({ token }) => token)
    const shouted = following('a', own, token => token.toUpperCase())
    change({ token: 'b' })
    expect(shouted.value).toBe('B')
  })

  it('never changes where nobody tells it', () => {
    expect(following({ token: 'a' }, unchanging, strict).value).toBe('Bearer a')
  })
})
