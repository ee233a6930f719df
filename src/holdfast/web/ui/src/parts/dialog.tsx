import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Icon } from "./icon";

interface Props {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  class?: string;
  bare?: boolean;
}

/** A window over the page. The browser keeps the focus in it, and gives it back at the end. */
export function Dialog({ title, onClose, children, class: more = "", bare = false }: Props) {
  const box = useRef<HTMLDialogElement>(null);
  // At once, not after the next drawing: whatever key comes first must meet the focus where it belongs.
  useLayoutEffect(() => {
    const dialog = box.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  const outside = (event: MouseEvent): void => {
    if (event.target === box.current) onClose();
  };
  return (
    <dialog
      ref={box}
      class={`dialog ${more}`}
      aria-label={title}
      onMouseDown={outside}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <div class="dialog-body">
        {!bare && (
          <header class="dialog-head">
            <h2>{title}</h2>
            <button type="button" class="icon-button" aria-label="Close" onClick={onClose}>
              <Icon name="close" />
            </button>
          </header>
        )}
        {children}
      </div>
    </dialog>
  );
}
