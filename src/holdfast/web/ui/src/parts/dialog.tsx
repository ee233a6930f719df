import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
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
  useEffect(() => {
    const before = document.activeElement;
    box.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
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
