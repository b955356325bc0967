import { useCallback, useEffect, useRef, useState } from "preact/hooks";

export interface Loaded<T> {
  data: T | null;
  error: Error | null;
  reload: () => void;
}

/** Load something, and load it again when `inputs` change or `everyMs` have passed. */
export function useLoad<T>(load: () => Promise<T>, inputs: unknown[], everyMs = 0): Loaded<T> {
  const [state, setState] = useState<{ data: T | null; error: Error | null }>({
    data: null,
    error: null,
  });
  const generation = useRef(0);
  const loading = useRef(load);
  loading.current = load;
  const reload = useCallback(() => {
    const mine = ++generation.current;
    loading.current().then(
      (data) => mine === generation.current && setState({ data, error: null }),
      (error: Error) => mine === generation.current && setState((old) => ({ ...old, error })),
    );
  }, []);
  useEffect(() => {
    setState({ data: null, error: null });
    reload();
    return () => {
      generation.current++;
    };
  }, inputs);
  useEffect(() => {
    if (!everyMs) return;
    const timer = setInterval(() => document.hidden || reload(), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return { ...state, reload };
}
