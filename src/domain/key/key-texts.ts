/** An optional text about a key, for people: no decision reads it, and no gateway gets it. */
interface KeyText {
  /** On pages and in the output of commands. */
  readonly label: string
  /** In characters. */
  readonly maxLength: number
  /** Below its field in a form. */
  readonly hint: string
  /** Describes its option in the help of commands. */
  readonly help: string
}

/**
 * All that the program knows about the texts, but for their columns: a migration adds those. A name is one lower-case word, since
 * field, column and option share it.
 */
export const KEY_TEXTS = {
  description: {
    label: 'Description',
    maxLength: 500,
    hint: 'Optional, such as the owner or a ticket. Clients of the API never see it',
    help: 'what the key is for, in one line',
  },
} as const satisfies Readonly<Record<Lowercase<string>, KeyText>>

export type TextName = keyof typeof KEY_TEXTS
/** Null without one. */
export type KeyTexts = Readonly<Record<TextName, string | null>>

// `Object.keys` forgets the type of a closed record's keys.
export const TEXT_NAMES = Object.keys(KEY_TEXTS) as readonly TextName[]

/** A value for each text, by its name. */
export function eachText<Value>(read: (name: TextName) => Value): Readonly<Record<TextName, Value>> {
  // Every name is there; `Object.fromEntries` forgets them.
  return Object.fromEntries(TEXT_NAMES.map(name => [name, read(name)])) as Record<TextName, Value>
}
