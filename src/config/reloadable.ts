/**
 * Takes part in a change of settings: makes ready for new ones, or throws why they cannot be used. What it returns puts them
 * to use; it cannot fail and does not wait. So either everybody changes or nobody does.
 */
export type Prepare<Settings> = (settings: Settings) => () => void

/** How a part asks to be told when settings change while it runs. */
export type Follow<Settings> = (prepare: Prepare<Settings>) => void

/** For parts whose settings stay as they are. */
export const unchanging = (): void => {}

/** What is made of the settings, and made anew when they change: who uses it asks for it each time. */
export function following<Settings, Value>(
  settings: Settings,
  follow: Follow<Settings>,
  make: (settings: Settings) => Value,
): { readonly value: Value } {
  const made = { value: make(settings) }
  follow(next => {
    const value = make(next)
    return () => {
      made.value = value
    }
  })
  return made
}

/** The same for a part that knows only its own share of the settings. */
export function followingPart<Whole, Part>(
  follow: Follow<Whole>,
  partOf: (whole: Whole) => Part,
): Follow<Part> {
  return prepare => follow(whole => prepare(partOf(whole)))
}
