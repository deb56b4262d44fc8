const WIDE = { width: 1280, height: 800 }
export const NARROW = { width: 360, height: 740 }

/** The ways in which each page is looked at. In the dark the same elements have other colors. */
export const VIEWS = {
  light: { size: WIDE, colorScheme: 'light', rules: 'all' },
  dark: { size: WIDE, colorScheme: 'dark', rules: 'contrast' },
  narrow: { size: NARROW, colorScheme: 'light', rules: 'all' },
  'narrow-dark': { size: NARROW, colorScheme: 'dark', rules: 'contrast' },
} as const
export type View = keyof typeof VIEWS
// `Object.keys` forgets the type of a closed record's keys.
export const VIEW_NAMES = Object.keys(VIEWS) as readonly View[]
